import type { Kysely } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { Limits } from '../quotas/limits.ts'
import { giveBack, leaseBlock, type Bucket } from './lease.ts'

export type Kind = 'requests' | 'authorize' | 'reports' | 'quota'

/** What one request met. */
export interface Taken {
  readonly allowed: boolean
  /** The bucket that is nearest to its end; of a refused request the one that refused it. */
  readonly bucket: Bucket
  readonly limit: number
  /** As far as this process knows: what others have leased counts as used. */
  readonly remaining: number
  /** Epoch seconds. */
  readonly resetAt: number
  /** Seconds, at least 1. */
  readonly retryAfter: number
}

/**
 * Request rates of organizations (specification, "Limits"), counted in blocks: a process leases some of a window's
 * requests at a time (lease.ts) and hands them out from memory. A block is used only with the limit that it was leased
 * under: callers bring the limits as they are now, so that a changed one holds from the next request on, in every process
 * (within a second for agents' keys that ask often: docs/decisions/0049).
 */
export interface Rates {
  /**
   * Counts one request. `authorize`, what agents ask, has a bucket of its own (contract section 7), and so have `reports`,
   * what they send beside it, with the same limit. An owner's changes of the `quota` have one of 30 a minute that no setting
   * changes: whoever has set a limit too low can raise it. A refused request counts nowhere.
   */
  take(organizationId: string, limits: Limits, kind: Kind): Promise<Taken>
  /** Gives back what nobody has used: a process that stops costs nobody any requests. */
  close(): Promise<void>
}

interface Block {
  readonly limit: number
  readonly startedAt: string
  readonly resetAt: number
  /** Of the window, not leased by anybody when this was. */
  readonly free: number
  /** By `performance.now()`; a little before the window's end, never after it. */
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
/** Beyond so many, blocks of windows that are over are forgotten. */
const keptBlocks = 10_000

export function createRates(db: Kysely<Database>): Rates {
  const blocks = new Map<string, Block>()
  const leases = new Map<string, Promise<void>>()

  const lease = async (key: string, organizationId: string, bucket: Bucket, limit: number): Promise<void> => {
    const sentAt = performance.now()
    const old = blocks.get(key)
    // Its requests go back with the lease: from here on nobody may use them.
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
  /** The block to take from: of this window and limit, and not used up unless the window is. */
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
    async close() {
      await Promise.allSettled(leases.values())
      const unused = [...blocks].filter(([, { left, until }]) => left > 0 && until > performance.now())
      blocks.clear()
      for (const [key, { startedAt, left }] of unused) {
        const [organizationId, bucket] = key.split('/') as [string, Bucket]
        await giveBack(db, organizationId, bucket, { startedAt, count: left })
      }
    },
  }
}

interface Wanted {
  readonly bucket: Bucket
  readonly block: Block
}

/** One of each, or none of any. */
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
