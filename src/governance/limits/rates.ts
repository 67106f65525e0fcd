import type { Db } from '../../db/schema/index.ts'
import type { Limits } from '../../contract/plan-limits.ts'
import { sql } from 'kysely'
import { leaseRequests } from '../../db/queries/limits/lease-requests.ts'
import type { RequestWindowsTable } from '../../db/schema/plumbing.ts'
import type { Metrics } from '../../shared/metrics.ts'
import type { SparseLog } from '../../shared/sparse-log.ts'

export type Kind = 'requests' | 'authorize' | 'reports' | 'quota'

/** The rate limit's answer to one request. */
export interface Taken {
  readonly allowed: boolean
  /** The bucket with the fewest requests left. For a refused request, this is the bucket that refused the request. */
  readonly bucket: Bucket
  readonly limit: number
  /** Requests left, as far as this process knows. Unused requests in blocks of other processes count as used. */
  readonly remaining: number
  /** The end of the window, in epoch seconds. */
  readonly resetAt: number
  /** Seconds until the end of the window, at least 1. */
  readonly retryAfter: number
}

/**
 * Counts the requests of organizations. A process leases a block of a window's requests from the database,
 * and counts the requests of the block in memory. Callers pass the present limits. A block that was
 * leased under another limit is not used any more. So a changed limit applies in every process from the next request
 * on. There is one exception: an agent's key that asks often may keep the old limit for up to a second
 * (docs/decisions/0049).
 */
export interface Rates {
  /**
   * Counts one request. Questions of agents (`authorize`) and other requests of agents (`reports`) have separate
   * buckets with the same limit. Changes of the quota (`quota`) have a separate bucket with 30 requests a minute. So an
   * owner can always raise a limit that is too low. A refused request is not counted.
   */
  take(organizationId: string, limits: Limits, kind: Kind): Promise<Taken>
  /** Gives unused requests back to the database. So the requests are not lost when the process stops. */
  close(): Promise<void>
}

interface Block {
  readonly limit: number
  readonly startedAt: string
  readonly resetAt: number
  /** The number of requests that the window had left for further leases, right after this block was leased. */
  readonly free: number
  /**
   * The block can be used until this time, by `performance.now()`. This time is the end of the window, or a little
   * earlier.
   */
  readonly until: number
  left: number
}

const buckets: Readonly<Record<Kind, readonly Bucket[]>> = {
  requests: ['requests_per_minute', 'requests_per_day'],
  authorize: ['authorize_per_minute'],
  reports: ['agent_reports_per_minute'],
  quota: ['quota_changes_per_minute'],
}
const quotaChangesPerMinute = 30
function limitOf(limits: Limits, bucket: Bucket): number {
  if (bucket === 'quota_changes_per_minute') return quotaChangesPerMinute
  return limits[bucket === 'agent_reports_per_minute' ? 'authorize_per_minute' : bucket]
}
/** If a process has more blocks than this, it drops the blocks of past windows. */
const keptBlocks = 10_000

/** The blocks that this process has leased, by organization and bucket. */
function createBlocks(db: Db) {
  const blocks = new Map<string, Block>()
  const leases = new Map<string, Promise<void>>()

  const lease = async (key: string, organizationId: string, bucket: Bucket, limit: number): Promise<void> => {
    const sentAt = performance.now()
    const old = blocks.get(key)
    // `leaseBlock` gives the unused requests of the old block back. So this process must not use the old block any
    // more.
    const unused = old === undefined ? null : { startedAt: old.startedAt, count: old.left }
    blocks.delete(key)
    const got = await leaseBlock(db, organizationId, bucket, limit, unused)
    blocks.set(key, {
      limit,
      startedAt: got.startedAt,
      resetAt: got.resetAt,
      free: Math.max(0, limit - got.taken),
      until: sentAt + got.millisecondsLeft,
      left: got.granted,
    })
    if (blocks.size > keptBlocks)
      for (const [each, { until }] of blocks) if (until < performance.now()) blocks.delete(each)
  }
  /**
   * Returns the block for this key if it has this limit and its window has not ended. Returns null if a new block must
   * be leased. If the block is used up and the window has no more requests, returns the block, because a new lease
   * would get nothing.
   */
  const current = (key: string, limit: number): Block | null => {
    const block = blocks.get(key)
    if (block === undefined || block.limit !== limit || block.until <= performance.now()) return null
    return block.left > 0 || block.free === 0 ? block : null
  }
  const renew = (key: string, organizationId: string, bucket: Bucket, limit: number): Promise<void> => {
    const underWay = leases.get(key)
    if (underWay !== undefined) return underWay
    const started = lease(key, organizationId, bucket, limit).finally(() => leases.delete(key))
    leases.set(key, started)
    return started
  }
  /** Gives the unused requests of all blocks back to their windows. */
  const close = async (): Promise<void> => {
    await Promise.allSettled(leases.values())
    const unused = [...blocks].filter(([, { left, until }]) => left > 0 && until > performance.now())
    blocks.clear()
    for (const [key, { startedAt, left }] of unused) {
      const [organizationId, bucket] = key.split('/') as [string, Bucket]
      await giveBack(db, organizationId, bucket, { startedAt, count: left })
    }
  }
  return { current, renew, close }
}

export function createRates(db: Db): Rates {
  const { current, renew, close } = createBlocks(db)
  return {
    async take(organizationId, limits, kind) {
      for (;;) {
        const wanted = buckets[kind].map((bucket) => {
          const key = `${organizationId}/${bucket}`
          const limit = limitOf(limits, bucket)
          return { key, bucket, limit, block: current(key, limit) }
        })
        const missing = wanted.filter(({ block }) => block === null)
        if (missing.length === 0) return takeFrom(wanted as Wanted[])
        for (const { key, bucket, limit } of missing) await renew(key, organizationId, bucket, limit)
      }
    },
    close,
  }
}

interface Wanted {
  readonly bucket: Bucket
  readonly block: Block
}

/** Takes one request from each bucket, or none at all. */
function takeFrom(wanted: readonly Wanted[]): Taken {
  const empty = wanted.filter(({ block }) => block.left === 0)
  if (empty.length === 0) for (const { block } of wanted) block.left -= 1
  const candidates = empty.length === 0 ? wanted : empty
  const { bucket, block } = candidates.reduce((a, b) =>
    empty.length === 0
      ? remainingOf(b.block) < remainingOf(a.block)
        ? b
        : a
      : b.block.resetAt > a.block.resetAt
        ? b
        : a,
  )
  return {
    allowed: empty.length === 0,
    bucket,
    limit: block.limit,
    remaining: remainingOf(block),
    resetAt: block.resetAt,
    retryAfter: Math.max(1, Math.ceil((block.until - performance.now()) / 1_000)),
  }
}

const remainingOf = (block: Block): number => block.free + block.left

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
async function leaseBlock(
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
async function giveBack(
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

/**
 * Counts and logs a request that was refused because of a rate limit. `holderId` is the id of an organization, or of a
 * person without an organization. A refused client may go on asking. So this function logs only a few lines a minute
 * for each `holderId`.
 */
export function noteRefusal(
  { metrics, sparseLog }: { readonly metrics: Metrics; readonly sparseLog: SparseLog },
  holderId: string,
  { bucket, limit }: Taken,
  requestId: string | undefined,
): void {
  metrics.rateRefusals.inc({ limit: bucket })
  const fields = { organization_id: holderId, request_id: requestId, limit: bucket, value: limit }
  sparseLog.info(`rate ${holderId} ${bucket}`, fields, 'a request was refused over a rate limit')
}
