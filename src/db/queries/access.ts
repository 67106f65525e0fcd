import { sql, type RawBuilder } from 'kysely'
import type { Plan } from '../../contract/plan-limits.ts'
import type { Role } from '../../policy/types.ts'

export interface KeyRow {
  readonly id: string
  readonly hash: string
  readonly key_name: string
  readonly organization_id: string
  readonly scopes: readonly string[]
  readonly user_id: string
  readonly email: string
  readonly name: string
  readonly plan: Plan
  readonly quota_overrides: object
  readonly role: Role | null
  readonly use_is_news: boolean
  readonly bound: boolean
  /** Who made the key of a service account; null for a key of a person. */
  readonly made_by: string | null
}

/** Raw SQL: building it with Kysely for each request would take longer than running it. */
export const readKeys = (hashes: readonly string[]): RawBuilder<KeyRow> => sql`
  select k.id, k.hash, k.name as key_name, k.organization_id, k.scopes, u.id as user_id, u.email, u.name, o.plan, o.quota_overrides, m.role, k.bound,
         coalesce(k.last_used_at < now() - interval '1 minute', true) as use_is_news,
         (select k.created_by from service_accounts where id = k.user_id) as made_by
  from api_keys k
  join users u on u.id = k.user_id
  join organizations o on o.id = k.organization_id
  left join memberships m on m.organization_id = k.organization_id and m.user_id = k.user_id
  where k.hash = any(${hashes}::text[]) and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now())`

/** With an account event for each. */
export const revokeKeysOf = (userId: string): RawBuilder<unknown> => sql`
  with revoked as (
    update api_keys set revoked_at = clock_timestamp() where user_id = ${userId} and revoked_at is null
    returning id, organization_id
  )
  insert into account_events (organization_id, user_id, type, api_key_id)
  select organization_id, ${userId}, 'api_key.revoked', id from revoked`

/** The last four are SQL expressions, for which `o` is the organization, `u` the user and `k` the key. */
export const readCaller = <Row>(given: {
  readonly organizationId: string
  readonly userId: string
  readonly keyId: string | null
  readonly valid: RawBuilder<boolean>
  readonly factorRequired: RawBuilder<unknown>
  readonly missing: RawBuilder<unknown>
  readonly hasFactor: RawBuilder<unknown>
}): RawBuilder<Row> => sql`
  select m.role, ${given.valid} as valid, k.scopes, k.name as key_name, k.expires_at, ${given.factorRequired} as factor_required,
         ${given.missing} as missing, u.email_verified as confirmed,
         ${given.hasFactor} as has_factor
  from (select) as one
  left join organizations o on o.id = ${given.organizationId}
  left join users u on u.id = ${given.userId}
  left join memberships m on m.organization_id = ${given.organizationId} and m.user_id = ${given.userId}
  left join api_keys k on k.id = ${given.keyId}`
