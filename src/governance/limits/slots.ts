import { sql } from 'kysely'
import { grantFreeSlots } from '../../db/queries/runs.ts'
import { slotKey } from '../../contract/messages.ts'
import type { ChainTx } from '../audit/chain-tx.ts'

/**
 * The states of a run's concurrency slot, in the column `runs.slot`. A run needs a slot to make calls
 * (docs/decisions/0037). Taken slots are counted from the rows of `runs`, so a crash leaves no wrong count.
 *
 * - *null*: the run needs no slot. The run has ended, or waits for the approval of the whole run, or waits for a person
 *   while none of its calls is in progress.
 * - `queued`: the run is accepted and waits for its first slot. The run has no Temporal workflow yet.
 * - `waits`: the run has a Temporal workflow, which waits for a slot to go on.
 * - `taken`: the run has a slot and may make calls.
 *
 * A transaction that may free a slot also gives free slots to waiting runs. The run that was accepted first comes
 * first. So if the next transaction finds a free slot, no run waits for a slot, and any run may take it.
 */
export type Slot = 'queued' | 'waits' | 'taken'

/** Returns the status text of a run that waits for a slot. `limit` is the number of slots of the organization. */
export const waitsForSlot = (limit: number): string =>
  `the run waits for one of ${limit} concurrent runs to end or to be held`

/** Returns whether a run may take a slot now. For this, a slot must be free, and no other run may wait for a slot. */
export async function hasFreeSlot(tx: ChainTx): Promise<boolean> {
  const { taken, waiting } = await readSlots(tx)
  return waiting === 0 && taken < tx.policy.limits.concurrent_executions
}

/** Counts the runs that have a slot, and the runs that wait for a slot. */
async function readSlots(tx: ChainTx): Promise<{ taken: number; waiting: number }> {
  const [row] = await tx.send(sql<{ taken: number; waiting: number }>`
    select count(*) filter (where slot = 'taken')::int as taken,
           count(*) filter (where slot <> 'taken')::int as waiting
    from runs where organization_id = ${tx.organizationId} and slot is not null`)
  return row as { taken: number; waiting: number }
}

/**
 * Grants free slots to waiting runs in the order of acceptance, and tells Temporal through the outbox. A `queued` run
 * is started. Waiting calls of a `waits` run are woken. Slots that earlier statements of this transaction have freed
 * are granted too. This function appends no audit entry.
 */
export function grantSlots(tx: ChainTx, limit: number): void {
  const granted = tx.send(grantFreeSlots({ organizationId: tx.organizationId, limit, wakeKey: slotKey }))
  // The answer of this statement arrives before the commit. After the commit, requests that wait for the granted runs
  // are woken, and each granted run is logged. An error of this statement also makes the commit fail, so it is ignored
  // here.
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
