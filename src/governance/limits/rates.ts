import type { Db } from '../../db/schema/index.ts'
import type { Limits } from '../../contract/plan-limits.ts'
import { sql } from 'kysely'
import { leaseRequests } from '../../db/queries/limits.ts'
import type { RequestWindowsTable } from '../../db/schema/plumbing.ts'
import type { Metrics } from '../../shared/metrics.ts'
import type { SparseLog } from '../../shared/log.ts'

export type Kind = 'requests' | 'authorize' | 'reports' | 'quota' | 'deliveries'

export interface Taken {
  readonly allowed: boolean
  /** The one with the fewest requests left, or the one that has refused the request. */
  readonly bucket: Bucket
  readonly limit: number
  /** As far as this process knows: unused requests in blocks of others count as used. */
  readonly remaining: number
  /** The end of the window, in epoch seconds. */
  readonly resetAt: number
  /** At least 1. */
  readonly retryAfter: number
}

/**
 * A process leases a block of a window's requests from the database, and counts them in memory. A block of another
 * limit is not used any more, so a changed limit holds in every process from the next request on. Only an agent's key
 * that asks often may keep the old one for a second (docs/decisions/0049).
 */
export interface Rates {
  /** Changes of the quota have a bucket of 30 a minute, so a low limit can be raised. Refusals do not count. */
  take(organizationId: string, limits: Limits, kind: Kind): Promise<Taken>
  /** Gives unused requests back, so that they are not lost when the process stops. */
  close(): Promise<void>
}

interface Block {
  readonly limit: number
  readonly startedAt: string
  readonly resetAt: number
  /** What the window had left for further leases after this one. */
  readonly free: number
  /** By `performance.now()`: the end of the window, or a little earlier. */
  readonly until: number
  left: number
}

const buckets: Readonly<Record<Kind, readonly Bucket[]>> = {
  requests: ['requests_per_minute', 'requests_per_day'],
  authorize: ['authorize_per_minute'],
  reports: ['agent_reports_per_minute'],
  quota: ['quota_changes_per_minute'],
  deliveries: ['deliveries_per_minute'],
}
/** To one trigger, by whose id they are counted. */
export const deliveriesPerMinute = 600

function limitOf(limits: Limits, bucket: Bucket): number {
  if (bucket === 'quota_changes_per_minute') return 30
  if (bucket === 'deliveries_per_minute') return deliveriesPerMinute
  return limits[bucket === 'agent_reports_per_minute' ? 'authorize_per_minute' : bucket]
}
/** Above this number, blocks of past windows are dropped. */
const keptBlocks = 10_000

/** By organization and bucket. */
function createBlocks(db: Db) {
  const blocks = new Map<string, Block>()
  const leases = new Map<string, Promise<void>>()

  const lease = async (key: string, organizationId: string, bucket: Bucket, limit: number): Promise<void> => {
    const sentAt = performance.now()
    const old = blocks.get(key)
    // `leaseBlock` gives them back, so this process must not use the old block any more.
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
  /** null if a new block must be leased. A used up block stays if the window has no more requests. */
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

/** From each bucket, or none at all. */
function takeFrom(wanted: readonly Wanted[]): Taken {
  const empty = wanted.filter(({ block }) => block.left === 0)
  if (empty.length === 0) for (const { block } of wanted) block.left -= 1
  const candidates = empty.length === 0 ? wanted : empty
  const orderOf = ({ block }: Wanted) => (empty.length === 0 ? -remainingOf(block) : block.resetAt)
  const { bucket, block } = candidates.reduce((a, b) => (orderOf(b) > orderOf(a) ? b : a))
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

/** A calendar minute or day in UTC, by the database's clock. */
const units: Readonly<Record<Bucket, 'minute' | 'day'>> = {
  requests_per_minute: 'minute',
  requests_per_day: 'day',
  authorize_per_minute: 'minute',
  agent_reports_per_minute: 'minute',
  quota_changes_per_minute: 'minute',
  deliveries_per_minute: 'minute',
}
/**
 * A block is the window's remaining requests divided by this number: it gets smaller towards the limit, so that few are
 * unused. If a process is killed, those of its day's block are lost until midnight (UTC).
 */
const parts: Readonly<Record<'minute' | 'day', number>> = { minute: 8, day: 64 }

/** Requests of one window that a process may count without asking again. */
export interface Lease {
  /** Identifies the window. */
  readonly startedAt: string
  readonly granted: number
  /** Leased by all processes, with this lease. */
  readonly taken: number
  readonly millisecondsLeft: number
  /** The end of the window, in epoch seconds. */
  readonly resetAt: number
}

/** Gives back an earlier lease. The sum of all blocks never exceeds the limit; a dead process loses its block. */
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
    largestBlock: 1_000,
    unused,
  }).execute(db)
  return rows[0] as Lease
}

/** Does nothing if the database already counts a newer window. */
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

/** A refused client may go on asking, so only a few lines a minute are logged for each holder. */
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
