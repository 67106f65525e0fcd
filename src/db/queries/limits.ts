import { sql, type RawBuilder } from 'kysely'

export interface Counted {
  /** The run `nthNewest` of the last hour, from 0 on. The next can be accepted an hour after it. */
  leaving: Date | null
  spent: number
  next_month: Date
  taken: number
  waiting: number
}

/** With the cost of this calendar month (UTC). */
export const countRuns = (given: {
  readonly organizationId: string
  readonly now: Date
  readonly nthNewest: number
}): RawBuilder<Counted> => sql`
  select
    (select created_at from runs
     where organization_id = ${given.organizationId} and created_at > ${given.now}::timestamptz - interval '1 hour'
     order by created_at desc offset ${given.nthNewest} limit 1) as leaving,
    (select coalesce(sum(cost), 0)::float8 from runs
     where organization_id = ${given.organizationId} and cost > 0
       and created_at >= date_trunc('month', ${given.now}::timestamptz, 'UTC')) as spent,
    date_trunc('month', ${given.now}::timestamptz, 'UTC') + interval '1 month' as next_month,
    (select count(*)::int from runs where organization_id = ${given.organizationId} and slot = 'taken') as taken,
    (select count(*)::int from runs where organization_id = ${given.organizationId} and slot in ('queued', 'waits')) as waiting`

export type RequestCounts = Readonly<
  Record<
    'workflow_runs_per_hour' | 'requests_per_minute' | 'requests_per_day' | 'authorize_per_minute',
    number
  >
>

/** Up to `mostRuns` runs of the last hour, and the requests that processes have taken from the present windows. */
export const countRequests = (organizationId: string, mostRuns: number): RawBuilder<RequestCounts> => {
  const taken = (bucket: string, unit: 'minute' | 'day') => sql`coalesce((
    select taken from request_windows where organization_id = ${organizationId} and bucket = ${bucket}
      and started_at = date_trunc(${unit}, now(), 'UTC')), 0)::float8`
  return sql`
  select
    (select count(*)::int from (
      select from runs where organization_id = ${organizationId} and created_at > now() - interval '1 hour'
      limit ${mostRuns}) r) as workflow_runs_per_hour,
    ${taken('requests_per_minute', 'minute')} as requests_per_minute,
    ${taken('requests_per_day', 'day')} as requests_per_day,
    ${taken('authorize_per_minute', 'minute')} as authorize_per_minute`
}

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

/** Moves rows of `storage_moves` to the counters. Needs the lock of the organization's `chain_head`. */
export const addStorageMoves = (organizationId: string, mostMoves: number): RawBuilder<unknown> => sql`
  with gone as (
    delete from storage_moves
    where id in (select id from storage_moves where organization_id = ${organizationId} limit ${mostMoves})
    returning bytes, pending
  )
  update chain_head set stored_bytes = stored_bytes + gone.bytes,
    pending_approvals = pending_approvals + gone.pending
  from (select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
        from gone) as gone
  where organization_id = ${organizationId}`

/** The counters and the rows of `storage_moves`, minus a new count of all rows. */
export const readStorageDrift = (
  organizationId: string,
): RawBuilder<{ readonly bytes: number; readonly pending: number }> => sql`
  select h.stored_bytes + m.bytes - r.bytes as bytes, h.pending_approvals + m.pending - r.pending as pending
  from chain_head h cross join lateral recount_storage(h.organization_id) as r cross join lateral (
    select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
    from storage_moves where organization_id = h.organization_id
  ) as m
  where h.organization_id = ${organizationId}`

/** With the rows of `storage_moves` that are not in the counters yet. */
export const readStoredAmounts = (
  organizationId: string,
): RawBuilder<{
  readonly bytes: number
  readonly pending: number
  readonly rules: number
  readonly memory: number
}> => sql`
  select h.stored_bytes + moved.bytes as bytes, h.pending_approvals + moved.pending as pending,
         (select count(*) from rules where organization_id = h.organization_id)
         + (select count(*) from label_rules where organization_id = h.organization_id) as rules,
         coalesce((select bytes from memory_usage where organization_id = h.organization_id), 0) as memory
  from chain_head h cross join lateral (
    select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
    from storage_moves where organization_id = h.organization_id
  ) as moved
  where h.organization_id = ${organizationId}`
