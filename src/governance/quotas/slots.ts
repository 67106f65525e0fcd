import { sql } from 'kysely'
import { slotKey } from '../../contract/messages.ts'
import type { ChainTx } from '../chain-tx.ts'

/**
 * Concurrency slots (contract section 4, `queued`; docs/decisions/0037). A run's row says whether it has one, so that
 * they are counted from rows and a crash leaves nothing wrong. `runs.slot`:
 *
 * - *null*: needs none: it waits for its own approval, or for a person with nothing under way, or has ended;
 * - `queued`: accepted, waits for one, has no workflow yet;
 * - `waits`: has a workflow that waits for one to go on (after an approval);
 * - `taken`: may act.
 *
 * Every transaction that can make one free also hands it on, the run accepted first before all others. So between
 * transactions a free slot means that no run waits, and whoever finds one free may take it.
 */
export type Slot = 'queued' | 'waits' | 'taken'

/** Sentence for a run that waits. */
export const waitsForSlot = (limit: number): string =>
  `the run waits for one of ${limit} concurrent runs to end or to be held`

/** Whether a run may take a slot now, none of the waiting ones being passed over. */
export async function hasFreeSlot(tx: ChainTx): Promise<boolean> {
  const { taken, waiting } = await readSlots(tx)
  return waiting === 0 && taken < tx.policy.limits.concurrent_executions
}

/** Runs that hold a slot and runs that wait for one. */
export async function readSlots(tx: ChainTx): Promise<{ taken: number; waiting: number }> {
  const [row] = await tx.send(sql<{ taken: number; waiting: number }>`
    select count(*) filter (where slot = 'taken')::int as taken,
           count(*) filter (where slot <> 'taken')::int as waiting
    from runs where organization_id = ${tx.organizationId} and slot is not null`)
  return row as { taken: number; waiting: number }
}

/**
 * Hands free slots to the runs that wait, in the order they were accepted, and tells Temporal through the outbox: a
 * `queued` one is started, of one that `waits` the calls are woken that wait for it. Sent behind what was written before; the operation itself appends an
 * audit entry, as everything that changes something does.
 */
export function grantSlots(tx: ChainTx, limit: number): void {
  const granted = tx.send(sql<{ id: string }>`
    with free as (
      select greatest(0, ${limit}::int - count(*)) as slots
      from runs where organization_id = ${tx.organizationId} and slot = 'taken'
    ), next as (
      select id, slot from runs
      where organization_id = ${tx.organizationId} and slot in ('queued', 'waits')
      order by position limit (select slots from free)
    ), granted as (
      update runs set slot = 'taken', status_reason = case
          when next.slot = 'queued' then 'the run waits for a worker'
          when runs.status = 'paused' then 'the run goes on'
          else runs.status_reason end
      from next where runs.id = next.id
      returning runs.id, next.slot as had
    ), told as (
      insert into outbox (kind, run_id, payload)
      select case when had = 'queued' then 'run.start' else 'run.wake' end, id,
             case when had = 'queued' then '{}'::jsonb else jsonb_build_object('key', ${slotKey}::text) end
      from granted
    )
    select id from granted`)
  // Those who wait for a run are told with the commit, which comes after this answer; a failure shows there.
  granted.then(
    (runs) => runs.forEach(({ id }) => tx.touched.add(id)),
    () => undefined,
  )
  tx.outboxWritten = true
}
