import { sql } from 'kysely'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { CommitPoint } from '../audit/commit-points.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting, type PresentCaller } from '../access/recheck.ts'
import { exceededEntry, quotaExceeded, type Exceeded } from './run-quota.ts'

/* The counters are columns of `chain_head`, read by the statement that takes the lock (docs/decisions/0074). */

/** A guess: nobody knows when data is deleted or a limit is raised. */
const retryAfter = 60

/** The limit that `more` bytes would exceed, else null. */
export function storageOver(tx: ChainTx, more = 0): Exceeded | null {
  const value = tx.policy.limits.storage_mb
  return tx.storedBytes + more <= value * 1024 ** 2 ? null : { limit: 'storage_mb', value, retryAfter }
}

export function approvalsOver(tx: ChainTx): Exceeded | null {
  const value = tx.policy.limits.pending_approvals
  return tx.pendingApprovals < value ? null : { limit: 'pending_approvals', value, retryAfter }
}

export async function rulesOver(tx: ChainTx): Promise<Exceeded | null> {
  const value = tx.policy.limits.rules
  const [row] = await tx.send(sql<{ count: number }>`
    select (select count(*) from rules where organization_id = ${tx.organizationId})
         + (select count(*) from label_rules where organization_id = ${tx.organizationId}) as count`)
  return (row as { count: number }).count < value ? null : { limit: 'rules', value, retryAfter }
}

/** So many characters may be written although `storage_mb` is exceeded. */
const smallEntry = 16 * 1024

/** 0 for a small one. Entries stay for ever: changes of one large value could otherwise fill the disk. */
export const grownEntry = (characters: number): number => (characters <= smallEntry ? 0 : characters)

export interface Growth<R> {
  /** In the refusal's audit entry, e.g. `create`. */
  readonly action: string
  /**
   * What the operation stores; characters are exact enough for JSON. For a replacement, a function that returns what it
   * adds: at 0 or less, it is accepted even above the limit.
   */
  readonly bytes?: number | ((tx: ChainTx) => Promise<number>)
  /** Checks further limits. */
  readonly exceeded?: (tx: ChainTx) => Promise<Exceeded | null>
  readonly work: (tx: ChainTx, now: () => Promise<PresentCaller>) => Promise<R>
}

/** For an operation that stores more than before. Above a limit, audits the refusal and throws `quota_exceeded`. */
export async function growAs<R>(
  context: Acting,
  caller: Caller,
  point: CommitPoint,
  { action, bytes = 0, exceeded, work }: Growth<R>,
): Promise<R> {
  const ended = await runAs(context, caller, point, async (tx, now) => {
    const more = typeof bytes === 'number' ? bytes : await bytes(tx)
    // A replacement that is not larger is accepted even above the limit.
    const grown = typeof bytes !== 'number' && more <= 0 ? null : storageOver(tx, more)
    const over = grown ?? (await exceeded?.(tx)) ?? null
    if (over === null) return { result: await work(tx, now) }
    tx.append(exceededEntry(over, action, actorOf(caller)))
    return { over }
  })
  // After the commit, so that the entry of the refusal is saved.
  if ('over' in ended) throw quotaExceeded(ended.over)
  return ended.result
}
