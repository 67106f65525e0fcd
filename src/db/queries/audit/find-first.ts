import { sql, type RawBuilder } from 'kysely'

/**
 * Finds the position of the first entry at or after `time`, with a binary search. Returns `end` if there is no such
 * entry. `time` is a UTC time in ISO 8601 with a fixed number of characters. So the order of the texts is the order of
 * the times.
 */
export const firstEntryFrom = ({
  organizationId,
  end,
  time,
}: {
  readonly organizationId: string
  readonly end: number
  readonly time: string
}): RawBuilder<{ readonly place: number }> => {
  const isBefore = sql`coalesce(entry.timestamp < ${time}, false)`
  const middle = sql`(low + high) / 2`
  return sql`
  with recursive halves (low, high) as (
    select 1::bigint, ${end}::bigint
    union all
    select case when ${isBefore} then ${middle} + 1 else low end, case when ${isBefore} then high else ${middle} end
    from halves left join lateral (
      select timestamp from audit_events where organization_id = ${organizationId} and seq = ${middle}
    ) as entry on true
    where low < high
  )
  select low as place from halves where low = high`
}
