import { sql } from 'kysely'
import { grantFreeSlots } from '../../db/queries/runs/grant-slots.ts'
import { slotKey } from '../../contract/messages.ts'
import type { ChainTx } from '../audit/chain-tx.ts'

/**
 * A run needs a concurrency slot to act (docs/decisions/0037). Slots are counted from the rows of runs, so a crash
 * leaves no wrong count. `runs.slot`:
 *
 * - *null*: the run needs no slot. It waits for its own approval, or waits for a person while none of its calls is in
 *   progress, or has ended.
 * - `queued`: the run is accepted, waits for a slot, and has no workflow yet.
 * - `waits`: the run has a workflow, which waits for a slot to go on.
 * - `taken`: the run has a slot and may act.
 *
 * Every transaction that may free a slot also grants it, to the run that was accepted first. So between transactions, a
 * free slot means that no run waits, and any run may take it.
 */
export type Slot = 'queued' | 'waits' | 'taken'

/** The status of a run that waits. */
export const waitsForSlot = (limit: number): string =>
  `the run waits for one of ${limit} concurrent runs to end or to be held`

/** Whether a run may take a slot now without overtaking a waiting one. */
export async function hasFreeSlot(tx: ChainTx): Promise<boolean> {
  const { taken, waiting } = await readSlots(tx)
  return waiting === 0 && taken < tx.policy.limits.concurrent_executions
}

/** Number of runs that hold a slot, and of runs that wait for one. */
async function readSlots(tx: ChainTx): Promise<{ taken: number; waiting: number }> {
  const [row] = await tx.send(sql<{ taken: number; waiting: number }>`
    select count(*) filter (where slot = 'taken')::int as taken,
           count(*) filter (where slot <> 'taken')::int as waiting
    from runs where organization_id = ${tx.organizationId} and slot is not null`)
  return row as { taken: number; waiting: number }
}

/**
 * Grants free slots to waiting runs in the order of acceptance, and tells Temporal through the outbox. A `queued` run
 * is started, and waiting calls of a `waits` run are woken. The statement runs after earlier statements. The calling
 * operation appends the audit entry.
 */
export function grantSlots(tx: ChainTx, limit: number): void {
  const granted = tx.send(grantFreeSlots({ organizationId: tx.organizationId, limit, wakeKey: slotKey }))
  // Waiting readers are notified, and the log gets its lines, after the commit, which comes after this answer. If the
  // statement fails, the commit fails too.
  granted.then(
    (runs) =>
      runs.forEach((run) => {
        tx.touched.add(run.id)
        tx.granted.push(run)
      }),
    () => undefined,
  )
  tx.outboxWritten = true
}
