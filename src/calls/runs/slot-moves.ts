import type { EffectState } from '../../contract/status.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import { grantSlots } from '../../governance/limits/slots.ts'
import type { EffectRecord, Ledger, RunState, LockedRun } from './ledger.ts'

/*
 * See limits/slots.ts and docs/decisions/0037. A run keeps its slot while a call is in progress, and between
 * calls. It gives the slot back if a call waits for a person and no other is in progress. If then no slot is
 * free for its next allowed call, this call is held until the run gets one, and is decided again.
 */

const underWay: ReadonlySet<EffectState> = new Set(['intent', 'sent', 'retry'])

function count(ledger: Ledger, run: RunState, has: (effect: EffectRecord) => boolean): number {
  let found = 0
  for (const effect of ledger.effects.values()) if (effect.run_id === run.id && has(effect)) found += 1
  return found
}

/** If no slot is free, or other runs are already waiting for one, the run waits too. */
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
  // A granted slot wakes the existing Temporal workflow. With `queued`, it would start one.
  run.slot = 'waits'
  return false
}

/** Call this before the ledger is written. If it returns true, call `handOn` after the rows are sent. */
export function giveSlotsBack(ledger: Ledger): boolean {
  let moved = false
  for (const run of ledger.runs.values()) {
    if (run.slot === 'waits') moved = true
    if (!isIdle(ledger, run)) continue
    // In an idle run, calls wait for a person, and none wants a slot.
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

/** Call this after the ledger's rows are sent. */
export function handOn(tx: ChainTx): void {
  grantSlots(tx, tx.policy.limits.concurrent_executions)
}
