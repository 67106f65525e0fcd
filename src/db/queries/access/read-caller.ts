import { sql, type RawBuilder } from 'kysely'

/** The last four are SQL expressions, for which `o` is the organization, `u` the user and `k` the key. */
export const readCaller = <Row>(given: {
  readonly organizationId: string
  readonly userId: string
  readonly keyId: string | null
  readonly valid: RawBuilder<boolean>
  readonly factorRequired: RawBuilder<unknown>
  readonly missing: RawBuilder<unknown>
  readonly backedByFactor: RawBuilder<unknown>
}): RawBuilder<Row> => sql`
  select m.role, ${given.valid} as valid, k.scopes, k.name as key_name, k.expires_at, ${given.factorRequired} as factor_required,
         ${given.missing} as missing, u.email_verified as confirmed,
         coalesce(u.two_factor_enabled, false) and ${given.backedByFactor} as has_factor
  from (select) as one
  left join organizations o on o.id = ${given.organizationId}
  left join users u on u.id = ${given.userId}
  left join memberships m on m.organization_id = ${given.organizationId} and m.user_id = ${given.userId}
  left join api_keys k on k.id = ${given.keyId}`
