import { sql, type RawBuilder } from 'kysely'

interface Use {
  readonly organizationId: string
  readonly userId: string
  readonly apiKeyId: string
  readonly route: string
  readonly key: string
  readonly bodyHash: string
}

/**
 * Inserts the key, or takes it over if it is older than `keptFor` and unlocked, or if it has no answer, its lock has
 * expired (its process probably died), and the body is the same. Otherwise returns no row.
 */
export const claimIdempotencyKey = (
  { organizationId, userId, apiKeyId, route, key, bodyHash }: Use,
  lockSeconds: number,
  keptFor: RawBuilder<unknown>,
): RawBuilder<{ readonly token: string; readonly acted: boolean; readonly made: string | null }> => {
  const fresh = sql`k.created_at >= clock_timestamp() - ${keptFor}`
  return sql`
  insert into idempotency_keys as k
    (organization_id, user_id, api_key_id, route, key, body_hash, locked_until, created_at)
  values (${organizationId}, ${userId}, ${apiKeyId}, ${route}, ${key}, ${bodyHash},
          clock_timestamp() + make_interval(secs => ${lockSeconds}), clock_timestamp())
  on conflict (organization_id, user_id, api_key_id, route, key) do update
    set body_hash = excluded.body_hash, locked_until = excluded.locked_until, created_at = excluded.created_at,
        response_status = null, response_body = null,
        acted = k.acted and ${fresh}, made = case when ${fresh} then k.made end
    where (k.created_at < clock_timestamp() - ${keptFor} and coalesce(k.locked_until < clock_timestamp(), true))
       or (k.response_status is null and k.locked_until < clock_timestamp() and k.body_hash = excluded.body_hash)
  returning created_at::text as token, acted, made`
}
