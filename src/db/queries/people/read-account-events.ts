import { sql, type RawBuilder } from 'kysely'

/**
 * Reads account events that are not in an audit chain yet: the first one of each organization, then the second one of
 * each.
 */
export const readAccountEvents = (
  most: number,
): RawBuilder<{ readonly id: number; readonly organization_id: string }> => sql`
  select id, organization_id from (
    select id, organization_id, row_number() over (partition by organization_id order by id) as turn
    from account_events) waiting
  order by turn, id limit ${most}`
