import { effectId, type EffectKey } from '../../contract/ids.ts'
import { isOutcome, runEnded, type Outcome } from '../../contract/status.ts'
import { stepError } from '../../contract/tool-faults.ts'
import type { StepError } from '../../db/schema/runs.ts'
import { explainFrozen } from '../../policy/decide.ts'
import type { Label } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import { DomainError } from '../../governance/errors.ts'
import { storageOver } from '../../governance/limits/storage.ts'
import type { Refused } from './call.ts'
import { newEffect } from './effect.ts'
import { runActor, settle, startRun, stepEvent, updateRunStatus } from './ledger-moves.ts'
import { ledgerKind } from './ledger-store.ts'
import {
  countStoredBytes,
  fitsRun,
  labelBytes,
  runTooLarge,
  waitForOrganizationLimit,
} from './storage-limit.ts'
import type { Ledger, LockedCall } from './ledger.ts'

/*
 * A step that waits (`run: { as: 'pause' }`). Its row is an effect without a tool: `held` with the time in
 * `until`, then an outcome. The database's clock decides whether the time has come. Nothing is done twice
 * after a crash: the row keeps the time.
 */

export interface ResolvedPause {
  readonly key: EffectKey
  /** False if the step's `when` is not true. */
  readonly wanted: boolean
  /** The run was cancelled or the organization is frozen, so no value was read. */
  readonly isUnread: boolean
  readonly problem: StepError | null
  readonly labels: Label[]
  /** When the step goes on if it begins now. Throws TypeError with words for the author. */
  readonly until: (now: Date) => Date
}

type PauseVerdict = Extract<Refused, { state: Outcome | 'held' | 'no_room' }>

/** Commit point `effect.decide`. */
export const decidePauses = ledgerKind('effect.decide', decidePause)

function decidePause(tx: ChainTx, ledger: Ledger, op: ResolvedPause): PauseVerdict {
  const run = ledger.runs.get(op.key.runId)
  const known = ledger.effects.get(effectId(op.key))
  if (known !== undefined && isOutcome(known.state))
    return { go: false, state: known.state, reason: known.error?.message ?? known.state }
  // The rows of an ended run do not change.
  if (run === undefined || runEnded(run.status))
    return { go: false, state: 'cancelled', reason: 'the run has ended' }
  if (run.status === 'awaiting_approval')
    throw new DomainError('conflict', 'the run waits for its own approval')
  // The row of a wait stores its labels twice.
  const bytes = known === undefined ? 2 * labelBytes(op.labels) : 0
  const over = known === undefined && run.cancel_requested_at === null ? storageOver(tx, bytes) : null
  if (over !== null) return waitForOrganizationLimit({ tx, ledger, run }, over)
  startRun({ tx, ledger, run })
  const fits = fitsRun(run, bytes)
  const effect =
    known ??
    ledger.addEffect({ ...newEffect(op.key), tool: null, labels: op.labels, output_labels: op.labels })
  const wait: LockedCall = { tx, ledger, run, effect }
  if (bytes > 0 && fits) countStoredBytes(wait, bytes)
  tx.expects({ bytes })
  if (run.cancel_requested_at !== null) return end(wait, 'cancelled', 'the run was cancelled')
  // A freeze denies a wait that begins or ends, but a wake-up without a reason does neither.
  if (effect.until !== null && Date.parse(effect.until) > tx.now.getTime()) return heldUntil(effect.until)
  if (tx.policy.frozen !== null) return end(wait, 'denied', explainFrozen(tx.policy.frozen))
  if (op.isUnread) throw new DomainError('unavailable', 'the organization is no longer frozen')
  if (effect.until === null) {
    if (!op.wanted) return end(wait, 'skipped', 'its `when` does not hold')
    if (op.problem !== null) return end(wait, 'failed', op.problem.message, op.problem.code)
    if (!fits) return end(wait, 'failed', runTooLarge.message, runTooLarge.code)
    try {
      effect.until = op.until(tx.now).toISOString()
    } catch (error) {
      return end(wait, 'failed', (error as Error).message, 'invalid_params')
    }
    if (effect.item_index < 0) stepEvent(tx, effect, 'step.started')
    if (Date.parse(effect.until) > tx.now.getTime()) begin(wait, effect.until)
  }
  if (Date.parse(effect.until) <= tx.now.getTime()) return end(wait, 'completed')
  return heldUntil(effect.until)
}

const heldUntil = (expiresAt: string): PauseVerdict => ({
  go: false,
  state: 'held',
  waitsFor: 'time',
  approvalId: null,
  expiresAt,
})

function begin(wait: LockedCall, until: string): void {
  const { tx, ledger, run, effect } = wait
  effect.state = 'held'
  run.waiting += 1
  const step = ledger.step(effect.run_id, effect.step_id)
  if (step !== undefined) {
    step.status = 'held'
    step.started_at ??= tx.now.toISOString()
    ledger.dirtySteps.add(step)
  }
  stepEvent(tx, effect, 'step.held', { until })
  tx.append({
    eventType: 'step.waiting',
    action: step?.kind ?? '',
    status: 'held',
    actor: runActor(run),
    workflowId: run.workflow_id,
    runId: run.id,
    metadata: {
      step_id: effect.step_id,
      item_index: effect.item_index < 0 ? null : effect.item_index,
      until,
    },
  })
  updateRunStatus(wait, `step \`${effect.step_id}\` waits until ${until}`)
}

function end(wait: LockedCall, state: Outcome, reason = '', code: string = state): PauseVerdict {
  const isBad = state !== 'completed' && state !== 'skipped'
  settle(wait, {
    state,
    error: isBad ? stepError({ code, message: reason }) : null,
    outputLabels: wait.effect.labels,
  })
  return { go: false, state, reason }
}
