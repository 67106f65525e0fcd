import { sql, type RawBuilder } from 'kysely'

export interface Counted {
  /** For the run at `nthNewest`: an hour later, the next one can be accepted. null: fewer in the last hour. */
  leaving: Date | null
  spent: number
  next_month: Date
  taken: number
  waiting: number
}

/** `spent` is the cost of this calendar month (UTC). Position 0 is the newest run of the last hour. */
export const countRuns = (given: { organizationId: string; now: Date; nthNewest: number }) => sql<Counted>`
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

interface Leased {
  readonly startedAt: string
  readonly granted: number
  readonly taken: number
  readonly millisecondsLeft: number
  readonly resetAt: number
}

/**
 * Gives the unused requests of the previous lease back to their time window, and leases a block of the present one:
 * what the window has left, divided by `parts`, from 1 (if any is left) to `largestBlock`.
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
  organizationId: string
  bucket: string
  unit: 'minute' | 'day'
  limit: number
  parts: number
  largestBlock: number
  unused: { readonly startedAt: string; readonly count: number } | null
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

/** Includes the rows of `storage_moves`, which are not in the counters yet. */
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

/**
 * Moves at most `mostMoves` rows into the counters. The caller must have locked the organization's row of `chain_head`.
 */
export const addStorageMoves = (organizationId: string, mostMoves: number) => sql`
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

/** By how much the counters are wrong: they and the rows of `storage_moves`, minus a new count of all rows. */
export const readStorageDrift = (organizationId: string) => sql<{ bytes: number; pending: number }>`
  select h.stored_bytes + m.bytes - r.bytes as bytes, h.pending_approvals + m.pending - r.pending as pending
  from chain_head h cross join lateral recount_storage(h.organization_id) as r cross join lateral (
    select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
    from storage_moves where organization_id = h.organization_id
  ) as m
  where h.organization_id = ${organizationId}`
