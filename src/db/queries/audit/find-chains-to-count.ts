import { sql, type RawBuilder } from 'kysely'

/**
 * Finds chains with complete segments that are not counted yet. The first such segment is `next`, and the last one is
 * `end` - 1.
 */
export const chainsToCount = (
  segmentLength: number,
  mostChains: number,
): RawBuilder<{ readonly organization_id: string; readonly next: number; readonly end: number }> => sql`
  select h.organization_id, counted.next, h.seq / ${segmentLength}::int as end
  from chain_head h cross join lateral (
    select coalesce(max(segment) + 1, 0) as next from audit_counts
    where organization_id = h.organization_id and event_type = '' and user_id = '' and status = ''
  ) as counted
  where counted.next < h.seq / ${segmentLength}::int limit ${mostChains}`
