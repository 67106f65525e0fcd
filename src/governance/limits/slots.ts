import { sql } from 'kysely'
import { grantFreeSlots } from '../../db/queries/runs/grant-slots.ts'
import { slotKey } from '../../contract/messages.ts'
import type { ChainTx } from '../audit/chain-tx.ts'

/**
 * The states of a run's concurrency slot, in the column `runs.slot`. A run needs a slot to make calls
 * (docs/decisions/0037). Taken slots are counted from the rows of `runs`, so a crash leaves no wrong count.
 *
 * - *null*: the run needs no slot. It has ended, or it waits for the approval of the whole run, or it waits for a
 *   person while none of its calls is in progress.
 * - `queued`: the run is accepted and waits for its first slot. It has no Temporal workflow yet.
 * - `waits`: the run has a Temporal workflow, which waits for a slot to go on.
 * - `taken`: the run has a slot and may make calls.
 *
 * If a transaction may free a slot, it also gives this slot to the waiting run that was accepted first. So if the next
 * transaction finds a free slot, no run waits for it, and any run may take it.
 */
export type Slot = 'queued' | 'waits' | 'taken'

/** The status text of a run that waits for a slot. `limit`: the number of slots of the organization. */
export const waitsForSlot = (limit: number): string =>
  `the run waits for one of ${limit} concurrent runs to end or to be held`

/** Whether a run may take a slot now without overtaking a run that waits for one. */
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
 * is started, and waiting calls of a `waits` run are woken. Slots that earlier statements of this transaction have
 * freed are granted too. The caller appends the audit entry.
 */
export function grantSlots(tx: ChainTx, limit: number): void {
  const granted = tx.send(grantFreeSlots({ organizationId: tx.organizationId, limit, wakeKey: slotKey }))
  // The answer of this statement arrives before the commit. After the commit, requests that wait for the granted runs
  // are woken, and each granted run is logged. An error is ignored here, because it makes the commit fail.
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
