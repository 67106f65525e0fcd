import { sql, type RawBuilder } from 'kysely'

/** Organizations take turns. Events of other types than `known` stay in the table, so they have turns of their own. */
export const readAccountEvents = (
  most: number,
  known: readonly string[],
): RawBuilder<{ readonly id: number; readonly organization_id: string; readonly type: string }> => sql`
  select id, organization_id, type from (
    select id, organization_id, type,
           row_number() over (partition by organization_id, type = any(${known}) order by id) as turn
    from account_events) waiting
  order by turn, type = any(${known}) desc, id limit ${most}`
