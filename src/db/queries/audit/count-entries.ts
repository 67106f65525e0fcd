import { sql, type RawBuilder } from 'kysely'

/** By type, person and status, for the positions from `from` to before `to`. */
export const countSegmentEntries = (given: {
  readonly organizationId: string
  readonly segment: number
  readonly from: number
  readonly to: number
  readonly decisionTypes: readonly string[]
}): RawBuilder<unknown> => sql`
  with entries as materialized (
    select event_type, canonical::json ->> 'user_id' as user_id, canonical::json ->> 'status' as status
    from audit_events where organization_id = ${given.organizationId} and seq >= ${given.from} and seq < ${given.to}
  )
  insert into audit_counts (organization_id, event_type, user_id, status, segment, entries)
  select ${given.organizationId}::text, coalesce(event_type, ''), coalesce(user_id, ''), '', ${given.segment}::bigint, count(*)
  from entries group by grouping sets ((), (event_type), (user_id), (event_type, user_id))
  having grouping(user_id) = 1 or user_id is not null
  union all
  select ${given.organizationId}, event_type, '', status, ${given.segment}, count(*)
  from entries where event_type = any(${given.decisionTypes}) and status <> '' group by event_type, status
  on conflict do nothing`

/** Complete segments that are not counted: from `next` to before `end`. */
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

/** Binary search; `end` if no entry is so late. `time` has a fixed length, so texts are in the order of time. */
export const firstEntryFrom = (given: {
  readonly organizationId: string
  readonly end: number
  readonly time: string
}): RawBuilder<{ readonly place: number }> => {
  const isBefore = sql`coalesce(entry.timestamp < ${given.time}, false)`
  const middle = sql`(low + high) / 2`
  return sql`
  with recursive halves (low, high) as (
    select 1::bigint, ${given.end}::bigint
    union all
    select case when ${isBefore} then ${middle} + 1 else low end, case when ${isBefore} then high else ${middle} end
    from halves left join lateral (
      select timestamp from audit_events where organization_id = ${given.organizationId} and seq = ${middle}
    ) as entry on true
    where low < high
  )
  select low as place from halves where low = high`
}
