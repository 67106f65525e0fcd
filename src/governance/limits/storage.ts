import { sql } from 'kysely'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { CommitPoint } from '../audit/commit-points.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting, type PresentCaller } from '../access/recheck.ts'
import { exceededEntry, quotaExceeded, type Exceeded } from './run-quota.ts'

/*
 * Checks the limits of an organization's stored data. The counters are columns of `chain_head`. The statement that
 * takes the chain's lock also reads them (docs/decisions/0074).
 */

/**
 * Refused callers are told to wait this many seconds. The number is a guess, because nobody knows when data is deleted
 * or a limit is raised.
 */
const retryAfter = 60

/** Returns the storage limit if `more` additional bytes would exceed it, else null. */
export function storageOver(tx: ChainTx, more = 0): Exceeded | null {
  const value = tx.policy.limits.storage_mb
  return tx.storedBytes + more <= value * 1024 ** 2 ? null : { limit: 'storage_mb', value, retryAfter }
}

/**
 * Returns the storage limit if replacing a value would exceed the limit, else null. `more` is the number of bytes that
 * the replacement adds. Returns null if the new value is not larger than the old value.
 */
const storageOverBy = (tx: ChainTx, more: number): Exceeded | null =>
  more <= 0 ? null : storageOver(tx, more)

/** Returns the limit of pending approvals if one more approval would exceed it, else null. */
export function approvalsOver(tx: ChainTx): Exceeded | null {
  const value = tx.policy.limits.pending_approvals
  return tx.pendingApprovals < value ? null : { limit: 'pending_approvals', value, retryAfter }
}

/** Returns the limit of rules if one more rule or label rule would exceed it, else null. */
export async function rulesOver(tx: ChainTx): Promise<Exceeded | null> {
  const value = tx.policy.limits.rules
  const [row] = await tx.send(sql<{ count: number }>`
    select (select count(*) from rules where organization_id = ${tx.organizationId})
         + (select count(*) from label_rules where organization_id = ${tx.organizationId}) as count`)
  return (row as { count: number }).count < value ? null : { limit: 'rules', value, retryAfter }
}

/** An audit entry of at most this many characters may be written although `storage_mb` is exceeded. */
const smallEntry = 16 * 1024

/**
 * Returns `Growth.bytes` for a change that writes the changed value into its audit entry. The result is 0 for a small
 * entry. For a larger entry, it is the number of the entry's characters. Audit entries stay for ever. So if large
 * entries did not count, many changes of one value could fill the disk.
 */
export const grownEntry = (characters: number): number => (characters <= smallEntry ? 0 : characters)

export interface Growth<R> {
  /** `action` of the audit entry that records a refusal, e.g. `create`. */
  readonly action: string
  /**
   * The number of bytes that the operation stores. For JSON, the number of characters is exact enough. If the operation
   * replaces a value, pass a function that returns how many bytes the replacement adds. If the function returns 0 or
   * less, the replacement is accepted even if the limit is already exceeded.
   */
  readonly bytes?: number | ((tx: ChainTx) => Promise<number>)
  /** Checks further limits. Returns the limit that would be exceeded, else null. */
  readonly exceeded?: (tx: ChainTx) => Promise<Exceeded | null>
  readonly work: (tx: ChainTx, now: () => Promise<PresentCaller>) => Promise<R>
}

/**
 * Calls `runAs` for an operation that stores more than before. If a limit would be exceeded, does not call `work`,
 * audits the refusal, and throws `quota_exceeded` with the limit's name. Operations that free storage or raise a limit
 * use `runAs` directly.
 */
export async function growAs<R>(
  context: Acting,
  caller: Caller,
  point: CommitPoint,
  { action, bytes = 0, exceeded, work }: Growth<R>,
): Promise<R> {
  const ended = await runAs(context, caller, point, async (tx, now) => {
    const grown = typeof bytes === 'number' ? storageOver(tx, bytes) : storageOverBy(tx, await bytes(tx))
    const over = grown ?? (await exceeded?.(tx)) ?? null
    if (over === null) return { result: await work(tx, now) }
    tx.append(exceededEntry(over, action, actorOf(caller)))
    return { over }
  })
  // The error is thrown after the commit, so that the audit entry of the refusal is saved.
  if ('over' in ended) throw quotaExceeded(ended.over)
  return ended.result
}
