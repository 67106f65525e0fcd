import { sql, type RawBuilder } from 'kysely'

interface Leased {
  readonly startedAt: string
  readonly granted: number
  readonly taken: number
  readonly millisecondsLeft: number
  readonly resetAt: number
}

/**
 * Gives back what is unused of the previous lease, and leases what the present window has left, divided by `parts`: at
 * least 1, if any is left, and at most `largestBlock`.
 */
export const leaseRequests = (given: {
  readonly organizationId: string
  readonly bucket: string
  readonly unit: 'minute' | 'day'
  readonly limit: number
  readonly parts: number
  readonly largestBlock: number
  readonly unused: { readonly startedAt: string; readonly count: number } | null
}): RawBuilder<Leased> => {
  const block = (base: RawBuilder<unknown>) =>
    sql`greatest(0, least(${given.limit}::bigint - ${base}, ${given.largestBlock}, greatest(1, (${given.limit}::bigint - ${base}) / ${given.parts})))`
  // Taken in this window, without what is unused of the previous lease.
  const kept = (row: RawBuilder<unknown>) => sql`greatest(0, ${row}.taken -
    case when ${row}.started_at = ${given.unused?.startedAt ?? null}::timestamptz then ${given.unused?.count ?? 0} else 0 end)`
  const [theirs, before] = [kept(sql`r`), kept(sql`old`)]
  return sql`
  insert into request_windows as r (organization_id, bucket, started_at, taken)
  values (${given.organizationId}, ${given.bucket}, date_trunc(${given.unit}, clock_timestamp(), 'UTC'), ${block(sql`0`)})
  on conflict (organization_id, bucket) do update set
    -- Skip this if another process began a new window while this one waited for the row.
    started_at = greatest(r.started_at, excluded.started_at),
    taken = case when r.started_at >= excluded.started_at then ${theirs} + ${block(theirs)} else excluded.taken end
  returning new.started_at::text as "startedAt", new.taken,
    new.taken - case when old.started_at = new.started_at then ${before} else 0 end as granted,
    ceil(extract(epoch from new.started_at + ${`1 ${given.unit}`}::interval))::float8 as "resetAt",
    (extract(epoch from new.started_at + ${`1 ${given.unit}`}::interval - clock_timestamp()) * 1000)::float8
      as "millisecondsLeft"`
}
