import { sql } from 'kysely'
import { grantFreeSlots } from '../../db/queries/runs.ts'
import { slotKey } from '../../contract/messages.ts'
import type { ChainTx } from '../audit/chain-tx.ts'

/**
 * A run's concurrency slot (`runs.slot`), which it needs to make calls (docs/decisions/0037). Slots are counted from
 * the rows, so a crash leaves no wrong count.
 *
 * - *null*: it needs none. It has ended, or waits for the approval of the whole run, or for a person while none of its
 *   calls is in progress.
 * - `queued`: accepted, and waits for its first slot. It has no Temporal workflow yet.
 * - `waits`: its Temporal workflow waits for a slot to go on.
 * - `taken`: it may make calls.
 *
 * A transaction that may free a slot also gives free slots to waiting runs, in the order of acceptance. So if the next
 * one finds a free slot, no run waits, and any run may take it.
 */
export type Slot = 'queued' | 'waits' | 'taken'

export const waitsForSlot = (limit: number): string =>
  `the run waits for one of ${limit} concurrent runs to end or to be held`

/** A slot must be free, and no other run may wait for one. */
export async function hasFreeSlot(tx: ChainTx): Promise<boolean> {
  const [row] = await tx.send(sql<{ taken: number; waiting: number }>`
    select count(*) filter (where slot = 'taken')::int as taken,
           count(*) filter (where slot <> 'taken')::int as waiting
    from runs where organization_id = ${tx.organizationId} and slot is not null`)
  const { taken, waiting } = row as { taken: number; waiting: number }
  return waiting === 0 && taken < tx.policy.limits.concurrent_executions
}

/** In the order of acceptance, also slots that this transaction has freed. Starts or wakes the runs by the outbox. */
export function grantSlots(tx: ChainTx, limit: number): void {
  const granted = tx.send(grantFreeSlots({ organizationId: tx.organizationId, limit, wakeKey: slotKey }))
  // The answer arrives before the commit. An error makes the commit fail, so it is ignored here.
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
