import type { EffectState } from '../../contract/status.ts'
import type { ChainTx } from '../chain-tx.ts'
import { grantSlots } from '../quotas/slots.ts'
import type { EffectRecord, Ledger, RunState } from './ledger.ts'

/*
 * Slots, as calls of runs move them (quotas/slots.ts; docs/decisions/0037). A run keeps its slot while a call of it is
 * under way, and between its calls, unless one of them waits for a person and none is under way: then it gives the slot
 * back. The next call that would run its body takes one again, or is held until the run has one; whatever it was allowed
 * or approved for is decided again then.
 */

const underWay: ReadonlySet<EffectState> = new Set(['intent', 'sent', 'retry'])

/** Calls of the run in a state, those of this ledger as they are now. */
function count(ledger: Ledger, run: RunState, has: (effect: EffectRecord) => boolean): number {
  let found = 0
  for (const effect of ledger.effects.values()) if (effect.run_id === run.id && has(effect)) found += 1
  return found
}

/**
 * Whether the run may run a body now. If it has no slot it takes a free one; if there is none, or others wait for it, the
 * run joins those who wait.
 */
export function takeSlot(tx: ChainTx, ledger: Ledger, run: RunState): boolean {
  if (run.slot === 'taken') return true
  ledger.dirtyRuns.add(run)
  const { slots } = ledger
  if (run.slot === null && slots.waiting === 0 && slots.taken < tx.policy.limits.concurrent_executions) {
    run.slot = 'taken'
    slots.taken += 1
    return true
  }
  if (run.slot === null) slots.waiting += 1
  // Somebody asks for its calls, so it has a workflow: a `queued` one is woken, not started, when its turn comes.
  run.slot = 'waits'
  return false
}

/** Gives back the slots that the ledger's runs need no longer. Before the ledger is written; true if any has moved. */
export function giveSlotsBack(ledger: Ledger): boolean {
  let moved = false
  for (const run of ledger.runs.values()) {
    if (run.slot === 'waits') moved = true
    if (!isIdle(ledger, run)) continue
    // Of two calls that a grant has woken, the one that still waits for a person must not give away the other's slot.
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

/** Sends the hand-over of what was given back; after the ledger's own rows. */
export function handOn(tx: ChainTx): void {
  grantSlots(tx, tx.policy.limits.concurrent_executions)
}
