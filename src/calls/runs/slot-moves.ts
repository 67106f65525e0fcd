import type { EffectState } from '../../contract/status.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import { grantSlots } from '../../governance/limits/slots.ts'
import type { EffectRecord, Ledger, RunState, LockedRun } from './ledger.ts'

/*
 * How calls of runs take and release slots (limits/slots.ts; docs/decisions/0037). A run keeps its slot while a call is
 * in progress, and between calls. If a call waits for a person and no other call is in progress, the run gives its slot
 * back. The next allowed call of the run takes a slot again. If no slot is free, this call is held until the run gets a
 * slot. The call is then decided again.
 */

const underWay: ReadonlySet<EffectState> = new Set(['intent', 'sent', 'retry'])

/** Counts the run's calls in this ledger for which `has` is true. */
function count(ledger: Ledger, run: RunState, has: (effect: EffectRecord) => boolean): number {
  let found = 0
  for (const effect of ledger.effects.values()) if (effect.run_id === run.id && has(effect)) found += 1
  return found
}

/**
 * Returns whether a call of the run may be made now. A run without a slot takes a free slot. If no slot is free, or if
 * other runs are already waiting for a slot, the run waits too.
 */
export function takeSlot({ tx, ledger, run }: LockedRun): boolean {
  if (run.slot === 'taken') return true
  ledger.dirtyRuns.add(run)
  const { slots } = ledger
  if (run.slot === null && slots.waiting === 0 && slots.taken < tx.policy.limits.concurrent_executions) {
    run.slot = 'taken'
    slots.taken += 1
    return true
  }
  if (run.slot === null) slots.waiting += 1
  // A run that makes a call has a Temporal workflow already. With `waits`, a granted slot wakes this workflow. With
  // `queued`, a granted slot would start a workflow.
  run.slot = 'waits'
  return false
}

/**
 * Releases slots that the runs of the ledger do not need. Call this function before the ledger is written. If the
 * function returns true, call `handOn` after the ledger's rows are sent.
 */
export function giveSlotsBack(ledger: Ledger): boolean {
  let moved = false
  for (const run of ledger.runs.values()) {
    if (run.slot === 'waits') moved = true
    if (!isIdle(ledger, run)) continue
    // In an idle run, calls wait for a person, and no call wants a slot. So no call loses the slot that it waits for.
    run.slot = null
    ledger.dirtyRuns.add(run)
    moved = true
  }
  return moved
}

function isIdle(ledger: Ledger, run: RunState): boolean {
  if (run.slot === null || run.status === 'awaiting_approval' || run.waiting === 0) return false
  return (
    run.others_under_way + count(ledger, run, (effect) => underWay.has(effect.state)) === 0 &&
    run.others_wanting + count(ledger, run, (effect) => effect.wants_slot) === 0
  )
}

/** Gives released slots to waiting runs. Call this function after the ledger's rows are sent. */
export function handOn(tx: ChainTx): void {
  grantSlots(tx, tx.policy.limits.concurrent_executions)
}
