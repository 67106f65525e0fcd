import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { RequestWindowsTable } from '../../db/schema/plumbing.ts'

export type Bucket = RequestWindowsTable['bucket']

/** A window is a calendar minute or day in UTC, by the database's clock. */
const units: Readonly<Record<Bucket, 'minute' | 'day'>> = {
  requests_per_minute: 'minute',
  requests_per_day: 'day',
  authorize_per_minute: 'minute',
  agent_reports_per_minute: 'minute',
  quota_changes_per_minute: 'minute',
}
/**
 * A block is the remaining requests divided by this number. So blocks get smaller towards the limit, and few requests
 * lie unused in a process. A killed process loses its block of the day until midnight.
 */
const parts: Readonly<Record<'minute' | 'day', number>> = { minute: 8, day: 64 }
const largestBlock = 1_000

/** Requests of one window that a process may count without asking again. */
export interface Lease {
  /** Identifies the window. */
  readonly startedAt: string
  readonly granted: number
  /** Requests leased to all processes, this lease included. */
  readonly taken: number
  readonly millisecondsLeft: number
  /** Epoch seconds. */
  readonly resetAt: number
}

/**
 * Leases a block of the window's requests, after returning `unused` ones of an earlier lease. The sum of all blocks
 * never exceeds the limit. The block of a dead process is lost until the window ends.
 */
export async function leaseBlock(
  db: Db,
  organizationId: string,
  bucket: Bucket,
  limit: number,
  unused: { readonly startedAt: string; readonly count: number } | null,
): Promise<Lease> {
  const block = (base: ReturnType<typeof sql>) =>
    sql`greatest(0, least(${limit}::bigint - ${base}, ${largestBlock}, greatest(1, (${limit}::bigint - ${base}) / ${parts[units[bucket]]})))`
  // Requests taken from this window, minus the unused part of the previous lease.
  const kept = (row: ReturnType<typeof sql>) => sql`greatest(0, ${row}.taken -
    case when ${row}.started_at = ${unused?.startedAt ?? null}::timestamptz then ${unused?.count ?? 0} else 0 end)`
  const [theirs, before] = [kept(sql`r`), kept(sql`old`)]
  const { rows } = await sql<Lease>`
    insert into request_windows as r (organization_id, bucket, started_at, taken)
    values (${organizationId}, ${bucket}, date_trunc(${units[bucket]}, clock_timestamp(), 'UTC'), ${block(sql`0`)})
    on conflict (organization_id, bucket) do update set
      -- Skip this if another process began a new window while this one waited for the row.
      started_at = greatest(r.started_at, excluded.started_at),
      taken = case when r.started_at >= excluded.started_at then ${theirs} + ${block(theirs)} else excluded.taken end
    returning new.started_at::text as "startedAt", new.taken,
      new.taken - case when old.started_at = new.started_at then ${before} else 0 end as granted,
      ceil(extract(epoch from new.started_at + ${`1 ${units[bucket]}`}::interval))::float8 as "resetAt",
      (extract(epoch from new.started_at + ${`1 ${units[bucket]}`}::interval - clock_timestamp()) * 1000)::float8
        as "millisecondsLeft"`.execute(db)
  return rows[0] as Lease
}

/** Returns requests of a lease to their window, if it is still the present one. */
export async function giveBack(
  db: Db,
  organizationId: string,
  bucket: Bucket,
  unused: { readonly startedAt: string; readonly count: number },
): Promise<void> {
  await sql`
    update request_windows set taken = greatest(0, taken - ${unused.count})
    where organization_id = ${organizationId} and bucket = ${bucket}
      and started_at = ${unused.startedAt}::timestamptz`.execute(db)
}
