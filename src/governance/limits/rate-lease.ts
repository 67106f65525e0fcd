import { sql } from 'kysely'
import { leaseRequests } from '../../db/queries/limits.ts'
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
 * The size of a block is the number of the window's remaining requests divided by this number. So blocks get smaller
 * towards the limit, and a process has few unused requests. If a process is killed, the unused requests of its day's
 * block are lost until midnight (UTC).
 */
const parts: Readonly<Record<'minute' | 'day', number>> = { minute: 8, day: 64 }
const largestBlock = 1_000

/** A block: requests of one window that a process may count without asking the database again. */
export interface Lease {
  /** The start of the window. It identifies the window. */
  readonly startedAt: string
  readonly granted: number
  /** The number of this window's requests that all processes have leased, including this lease. */
  readonly taken: number
  readonly millisecondsLeft: number
  /** The end of the window, in epoch seconds. */
  readonly resetAt: number
}

/**
 * Gives back the `unused` requests of an earlier lease, then leases a new block of the window's requests. The sum of
 * all blocks never exceeds the limit. If a process dies, its block is lost until the window ends.
 */
export async function leaseBlock(
  db: Db,
  organizationId: string,
  bucket: Bucket,
  limit: number,
  unused: { readonly startedAt: string; readonly count: number } | null,
): Promise<Lease> {
  const unit = units[bucket]
  const { rows } = await leaseRequests({
    organizationId,
    bucket,
    unit,
    limit,
    parts: parts[unit],
    largestBlock,
    unused,
  }).execute(db)
  return rows[0] as Lease
}

/**
 * Gives the unused requests of a lease back to their window. Does nothing if the database already counts a newer
 * window.
 */
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
