import { sql } from 'kysely'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { CommitPoint } from '../audit/commit-points.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting, type PresentCaller } from '../access/recheck.ts'
import { exceededEntry, quotaExceeded, type Exceeded } from './run-quota.ts'

/*
 * Limits of an organization's stored data. Its counters are columns of `chain_head`, read with the lock
 * (docs/decisions/0074).
 */

/** Seconds. A guess: storage becomes free when data is deleted or a limit is raised. */
const retryAfter = 60

/** The exceeded limit if `more` bytes were stored, else null. */
export function storageOver(tx: ChainTx, more = 0): Exceeded | null {
  const value = tx.policy.limits.storage_mb
  return tx.storedBytes + more <= value * 1024 ** 2 ? null : { limit: 'storage_mb', value, retryAfter }
}

/** The same for a replacement that is larger by `more` bytes. */
const storageOverBy = (tx: ChainTx, more: number): Exceeded | null =>
  more <= 0 ? null : storageOver(tx, more)

/** The exceeded limit if one more approval were pending, else null. */
export function approvalsOver(tx: ChainTx): Exceeded | null {
  const value = tx.policy.limits.pending_approvals
  return tx.pendingApprovals < value ? null : { limit: 'pending_approvals', value, retryAfter }
}

/** The exceeded limit if one more rule or label rule were saved, else null. */
export async function rulesOver(tx: ChainTx): Promise<Exceeded | null> {
  const value = tx.policy.limits.rules
  const [row] = await tx.send(sql<{ count: number }>`
    select (select count(*) from rules where organization_id = ${tx.organizationId})
         + (select count(*) from label_rules where organization_id = ${tx.organizationId}) as count`)
  return (row as { count: number }).count < value ? null : { limit: 'rules', value, retryAfter }
}

/** The most characters of an audit entry that may be written over `storage_mb`. */
const smallEntry = 16 * 1024

/**
 * For `Growth.bytes` of a change whose audit entry contains the change: 0 for a small entry, else its characters. Audit
 * entries stay for ever, so without this a value could fill the disk by many changes.
 */
export const grownEntry = (characters: number): number => (characters <= smallEntry ? 0 : characters)

export interface Growth<R> {
  /** `action` of the audit entry that records a refusal, e.g. `create`. */
  readonly action: string
  /** Characters to store. For a replacement, the growth: 0 or less is accepted over the limit too. */
  readonly bytes?: number | ((tx: ChainTx) => Promise<number>)
  /** Further limits to check. */
  readonly room?: (tx: ChainTx) => Promise<Exceeded | null>
  readonly work: (tx: ChainTx, now: () => Promise<PresentCaller>) => Promise<R>
}

/**
 * `runAs` for an operation that stores more than before. Over a limit, nothing is done, the refusal is audited, and
 * `quota_exceeded` with the limit's name is thrown. Operations that free storage or raise a limit use `runAs` directly.
 */
export async function growAs<R>(
  context: Acting,
  caller: Caller,
  point: CommitPoint,
  { action, bytes = 0, room, work }: Growth<R>,
): Promise<R> {
  const ended = await runAs(context, caller, point, async (tx, now) => {
    const grown = typeof bytes === 'number' ? storageOver(tx, bytes) : storageOverBy(tx, await bytes(tx))
    const over = grown ?? (await room?.(tx)) ?? null
    if (over === null) return { result: await work(tx, now) }
    tx.append(exceededEntry(over, action, actorOf(caller)))
    return { over }
  })
  // Thrown after the commit, so that the refusal is audited.
  if ('over' in ended) throw quotaExceeded(ended.over)
  return ended.result
}
