import { sql, type RawBuilder } from 'kysely'

/**
 * Reads pending approvals whose time is over. Organizations take turns: the first approval of each organization comes
 * first, then the second approval of each organization, and so on. `isOver` is a condition on a row of `approvals`.
 */
export const readDueApprovals = (
  isOver: RawBuilder<boolean>,
  most: number,
): RawBuilder<{ readonly id: string; readonly organization_id: string }> => sql`
  select id, organization_id from (
    select id, organization_id, expires_at,
      row_number() over (partition by organization_id order by expires_at, id) as turn
    from approvals where status = 'pending' and ${isOver}) due
  order by turn, expires_at limit ${most}`
