import { sql, type RawBuilder } from 'kysely'

interface Leased {
  readonly startedAt: string
  readonly granted: number
  readonly taken: number
  readonly millisecondsLeft: number
  readonly resetAt: number
}

/**
 * Gives the unused requests of the previous lease back to their time window, and leases a block of the present window.
 * The block is the number of requests that the window has left, divided by `parts`. It has at least 1 request, if any
 * is left, and at most `largestBlock`.
 */
export const leaseRequests = ({
  organizationId,
  bucket,
  unit,
  limit,
  parts,
  largestBlock,
  unused,
}: {
  readonly organizationId: string
  readonly bucket: string
  readonly unit: 'minute' | 'day'
  readonly limit: number
  readonly parts: number
  readonly largestBlock: number
  readonly unused: { readonly startedAt: string; readonly count: number } | null
}): RawBuilder<Leased> => {
  const block = (base: RawBuilder<unknown>) =>
    sql`greatest(0, least(${limit}::bigint - ${base}, ${largestBlock}, greatest(1, (${limit}::bigint - ${base}) / ${parts})))`
  // SQL for the number of taken requests in this window, minus the unused requests of the previous lease.
  const kept = (row: RawBuilder<unknown>) => sql`greatest(0, ${row}.taken -
    case when ${row}.started_at = ${unused?.startedAt ?? null}::timestamptz then ${unused?.count ?? 0} else 0 end)`
  const [theirs, before] = [kept(sql`r`), kept(sql`old`)]
  return sql`
  insert into request_windows as r (organization_id, bucket, started_at, taken)
  values (${organizationId}, ${bucket}, date_trunc(${unit}, clock_timestamp(), 'UTC'), ${block(sql`0`)})
  on conflict (organization_id, bucket) do update set
    -- Skip this if another process began a new window while this one waited for the row.
    started_at = greatest(r.started_at, excluded.started_at),
    taken = case when r.started_at >= excluded.started_at then ${theirs} + ${block(theirs)} else excluded.taken end
  returning new.started_at::text as "startedAt", new.taken,
    new.taken - case when old.started_at = new.started_at then ${before} else 0 end as granted,
    ceil(extract(epoch from new.started_at + ${`1 ${unit}`}::interval))::float8 as "resetAt",
    (extract(epoch from new.started_at + ${`1 ${unit}`}::interval - clock_timestamp()) * 1000)::float8
      as "millisecondsLeft"`
}
