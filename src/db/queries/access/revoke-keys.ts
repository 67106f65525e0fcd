import { sql, type RawBuilder } from 'kysely'

/** Revokes the API keys of a person. Records an account event for each key. */
export const revokeKeysOf = (userId: string): RawBuilder<unknown> => sql`
  with revoked as (
    update api_keys set revoked_at = clock_timestamp() where user_id = ${userId} and revoked_at is null
    returning id, organization_id
  )
  insert into account_events (organization_id, user_id, type, api_key_id)
  select organization_id, ${userId}, 'api_key.revoked', id from revoked`
