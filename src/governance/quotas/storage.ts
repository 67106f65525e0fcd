import { sql } from 'kysely'
import type { Context } from '../../context.ts'
import type { ChainTx } from '../chain-tx.ts'
import type { CommitPoint } from '../commit-points.ts'
import { actorOf, type Caller } from '../identity.ts'
import { runAs, type PresentCaller } from '../standing.ts'
import { exceededEntry, quotaExceeded, type Exceeded } from './run-quota.ts'

/* What an organization may keep. Its counters are columns of `chain_head`, read with the lock (docs/decisions/0074). */

/** There is room again once something goes or a limit is raised, whenever that is. */
const retryAfter = 60

/** Whether keeping `more` bytes would take the organization over `storage_mb`; null if there is room. */
export function storageOver(tx: ChainTx, more = 0): Exceeded | null {
  const value = tx.policy.limits.storage_mb
  return tx.storedBytes + more <= value * 1024 ** 2 ? null : { limit: 'storage_mb', value, retryAfter }
}

/** The same for what takes the place of something else, and is larger by `more` bytes. */
const storageOverBy = (tx: ChainTx, more: number): Exceeded | null =>
  more <= 0 ? null : storageOver(tx, more)

/** Whether one more pending approval would take the organization over `pending_approvals`; null if there is room. */
export function approvalsOver(tx: ChainTx): Exceeded | null {
  const value = tx.policy.limits.pending_approvals
  return tx.pendingApprovals < value ? null : { limit: 'pending_approvals', value, retryAfter }
}

/** Whether one more rule or label rule would take the organization over `rules`; null if there is room. */
export async function rulesOver(tx: ChainTx): Promise<Exceeded | null> {
  const value = tx.policy.limits.rules
  const [row] = await tx.send(sql<{ count: number }>`
    select (select count(*) from rules where organization_id = ${tx.organizationId})
         + (select count(*) from label_rules where organization_id = ${tx.organizationId}) as count`)
  return (row as { count: number }).count < value ? null : { limit: 'rules', value, retryAfter }
}

export interface Growth<R> {
  /** Of the audit entry that stays of a refusal, e.g. `create`. */
  readonly action: string
  /**
   * Characters that it is about to keep. Of what takes the place of something else: how many more than that; 0 or fewer have
   * room over the limit too.
   */
  readonly bytes?: number | ((tx: ChainTx) => Promise<number>)
  /** Further limits of what is done. */
  readonly room?: (tx: ChainTx) => Promise<Exceeded | null>
  readonly work: (tx: ChainTx, now: () => Promise<PresentCaller>) => Promise<R>
}

/**
 * `runAs` for an operation that keeps more than before. Over a limit nothing is done, the refusal is audited, and it throws
 * `quota_exceeded` with the limit's name. What makes room or raises a limit goes through `runAs` itself.
 */
export async function growAs<R>(
  context: Context,
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
  // Thrown only after the commit: that it was refused must be saved.
  if ('over' in ended) throw quotaExceeded(ended.over)
  return ended.result
}
