import { sql, type RawBuilder } from 'kysely'

/**
 * Reads at most `most` account events that are not in an audit chain yet. Organizations take turns: the oldest event of
 * each organization comes first, then the second oldest event of each organization, and so on.
 */
export const readAccountEvents = (
  most: number,
): RawBuilder<{ readonly id: number; readonly organization_id: string; readonly type: string }> => sql`
  select id, organization_id, type from (
    select id, organization_id, type, row_number() over (partition by organization_id order by id) as turn
    from account_events) waiting
  order by turn, id limit ${most}`
