import { sql, type RawBuilder } from 'kysely'

/**
 * Reads the rights that a caller has now. The last four parameters are SQL expressions. They can use the aliases `o`
 * (organization), `u` (user) and `k` (key).
 */
export const readCaller = <Row>({
  organizationId,
  userId,
  keyId,
  valid,
  factorRequired,
  missing,
  backedByFactor,
}: {
  readonly organizationId: string
  readonly userId: string
  readonly keyId: string | null
  readonly valid: RawBuilder<boolean>
  readonly factorRequired: RawBuilder<unknown>
  readonly missing: RawBuilder<unknown>
  readonly backedByFactor: RawBuilder<unknown>
}): RawBuilder<Row> => sql`
  select m.role, ${valid} as valid, k.scopes, k.name as key_name, k.expires_at, ${factorRequired} as factor_required,
         ${missing} as missing, u.email_verified as confirmed,
         coalesce(u.two_factor_enabled, false) and ${backedByFactor} as has_factor
  from (select) as one
  left join organizations o on o.id = ${organizationId}
  left join users u on u.id = ${userId}
  left join memberships m on m.organization_id = ${organizationId} and m.user_id = ${userId}
  left join api_keys k on k.id = ${keyId}`
