import { sql, type RawBuilder } from 'kysely'

/**
 * Counts the entries of a segment by type, person and status, and stores the counts in `audit_counts`. The first
 * position of the segment is `from`, and its last position is `to` - 1.
 */
export const countSegmentEntries = ({
  organizationId,
  segment,
  from,
  to,
  decisionTypes,
}: {
  readonly organizationId: string
  readonly segment: number
  readonly from: number
  readonly to: number
  readonly decisionTypes: readonly string[]
}): RawBuilder<unknown> => sql`
  with entries as materialized (
    select event_type, canonical::json ->> 'user_id' as user_id, canonical::json ->> 'status' as status
    from audit_events where organization_id = ${organizationId} and seq >= ${from} and seq < ${to}
  )
  insert into audit_counts (organization_id, event_type, user_id, status, segment, entries)
  select ${organizationId}::text, coalesce(event_type, ''), coalesce(user_id, ''), '', ${segment}::bigint, count(*)
  from entries group by grouping sets ((), (event_type), (user_id), (event_type, user_id))
  having grouping(user_id) = 1 or user_id is not null
  union all
  select ${organizationId}, event_type, '', status, ${segment}, count(*)
  from entries where event_type = any(${decisionTypes}) and status <> '' group by event_type, status
  on conflict do nothing`
