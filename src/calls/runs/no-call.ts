import { effectId, type EffectKey } from '../../contract/ids.ts'
import type { HeldDetails } from '../../contract/messages.ts'
import { isOutcome, runEnded, type Outcome } from '../../contract/status.ts'
import { stepError } from '../../contract/tool-faults.ts'
import type { StepError } from '../../db/schema/runs.ts'
import { explainFrozen } from '../../policy/decide.ts'
import { unionLabels, type Label } from '../../policy/types.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import { DomainError } from '../../governance/errors.ts'
import { approvalsOver, storageOver } from '../../governance/limits/storage.ts'
import type { SealedText } from '../../governance/sealing/format.ts'
import type { Refused, Reused } from './call.ts'
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
import { withdrawPending } from './approval-use.ts'
import { answerLabels, askOrEnd, otherwiseOf, waitsOn, type Asked } from './question.ts'

/*
 * A step without a tool. Its row is an effect without one. A computed step (`run: { as: 'compute' }`) gets its output
 * and its outcome at once. A step that asks (`run: { as: 'ask' }`) is in question.ts. A step that waits (`run: { as: 'pause' }`) is `held` with the time in `until`, then has
 * an outcome. The database's clock decides whether the time has come. Nothing is done twice after a crash: the row
 * keeps the time, and values are computed from the same inputs.
 */

export interface ResolvedNoCall {
  readonly key: EffectKey
  /** False if the step's `when` is not true. */
  readonly wanted: boolean
  /** The run was cancelled or the organization is frozen, so no value was read. */
  readonly isUnread: boolean
  readonly problem: StepError | null
  readonly labels: Label[]
  /** Null if its values were not read. */
  readonly valuesHash: string | null
  /** An earlier run of the chain has done the same. */
  readonly reused: Reused | null
  /** Null if the values were not read, or with a `problem`. */
  readonly does: Pause | { readonly output: SealedText } | Asked | null
}

interface Pause {
  /** When the step goes on if it begins now. Throws TypeError with words for the author. */
  readonly until: (now: Date) => Date
}

const asks = ({ does, wanted }: ResolvedNoCall): boolean =>
  wanted && does !== null && 'question' in does && does.problem === null

type Verdict = Extract<Refused, { state: Outcome | 'held' | 'no_room' }>

/** Commit point `effect.decide`. */
export const decideNoCalls = ledgerKind('effect.decide', decideNoCall)

function decideNoCall(tx: ChainTx, ledger: Ledger, op: ResolvedNoCall): Verdict {
  const run = ledger.runs.get(op.key.runId)
  const known = ledger.effects.get(effectId(op.key))
  if (known !== undefined && isOutcome(known.state))
    return { go: false, state: known.state, reason: known.error?.message ?? known.state }
  // The rows of an ended run do not change.
  if (run === undefined || runEnded(run.status))
    return { go: false, state: 'cancelled', reason: 'the run has ended' }
  if (run.status === 'awaiting_approval')
    throw new DomainError('conflict', 'the run waits for its own approval')
  // The row stores its labels twice.
  const rowBytes = known === undefined ? 2 * labelBytes(op.labels) : 0
  const { does } = op
  const valueBytes =
    does === null ? 0 : 'output' in does ? does.output.bytes : 'sealed' in does ? does.sealed.length : 0
  const bytes = rowBytes + valueBytes + (op.reused?.output?.bytes ?? 0)
  const isNew = known === undefined && run.cancel_requested_at === null
  const over = isNew
    ? (storageOver(tx, bytes) ?? (asks(op) && op.reused === null ? approvalsOver(tx) : null))
    : null
  if (over !== null) return waitForOrganizationLimit({ tx, ledger, run }, over)
  startRun({ tx, ledger, run })
  const fits = fitsRun(run, bytes)
  const effect =
    known ??
    ledger.addEffect({
      ...newEffect(op.key),
      tool: null,
      labels: op.labels,
      output_labels: op.labels,
      params_hash: op.reused?.paramsHash ?? op.valuesHash,
      reused_from: op.reused?.from ?? null,
    })
  const step: LockedCall = { tx, ledger, run, effect }
  if (rowBytes > 0 && fits) countStoredBytes(step, rowBytes)
  tx.expects({ bytes: rowBytes })
  if (run.cancel_requested_at !== null) return end(step, 'cancelled', 'the run was cancelled')
  // A freeze denies a wait that begins or ends, but a wake-up without a reason does neither.
  if (effect.until !== null && Date.parse(effect.until) > tx.now.getTime()) return heldUntil(effect.until)
  const waits = waitsOn(step)
  if (waits !== null) return held(waits)
  if (tx.policy.frozen !== null) return end(step, 'denied', explainFrozen(tx.policy.frozen))
  if (op.isUnread) throw new DomainError('unavailable', 'the organization is no longer frozen')
  if (effect.until === null) {
    if (!op.wanted) return end(step, 'skipped', 'its `when` does not hold')
    if (op.problem !== null) return end(step, 'failed', op.problem.message, op.problem.code)
    if (!fits) return end(step, 'failed', runTooLarge.message, runTooLarge.code)
    if (known === undefined && op.reused !== null) return endAsBefore(step, op.reused, asks(op))
    if (does === null) throw new Error('the values of the step were not read')
    if ('question' in does) return askStep(step, op.key, does)
    if ('output' in does) {
      tx.expects({ bytes: does.output.bytes })
      if (effect.item_index < 0) stepEvent(tx, effect, 'step.started')
      return end(step, 'completed', '', 'completed', does.output)
    }
    try {
      effect.until = does.until(tx.now).toISOString()
    } catch (error) {
      return end(step, 'failed', (error as Error).message, 'invalid_params')
    }
    if (effect.item_index < 0) stepEvent(tx, effect, 'step.started')
    if (Date.parse(effect.until) > tx.now.getTime()) begin(step, effect.until)
  }
  if (Date.parse(effect.until) <= tx.now.getTime()) return end(step, 'completed')
  return heldUntil(effect.until)
}

/** With the labels that it had, and those that it would get now. */
const endAsBefore = (step: LockedCall, { output, labels }: Reused, isAnswer: boolean): Verdict => {
  const now = isAnswer ? answerLabels(step) : step.effect.labels
  return end(step, 'completed', '', 'completed', output ?? undefined, unionLabels(labels, now))
}

const held = ({ waitsFor, approvalId, expiresAt }: HeldDetails): Verdict => ({
  go: false,
  state: 'held',
  waitsFor,
  approvalId,
  expiresAt,
})

const heldUntil = (expiresAt: string): Verdict => held({ waitsFor: 'time', approvalId: null, expiresAt })

function askStep(step: LockedCall, key: EffectKey, asked: Asked): Verdict {
  const { tx, effect } = step
  if (effect.approval_id === null && effect.item_index < 0) stepEvent(tx, effect, 'step.started')
  const standing = askOrEnd(step, asked)
  if (standing.kind === 'waits') return held(standing)
  if (standing.kind === 'failed') return end(step, 'failed', standing.reason, 'invalid_params')
  if (standing.kind === 'cancelled') return end(step, 'cancelled', 'its question was withdrawn')
  const output = otherwiseOf(step, key, asked)
  if (output === undefined) return end(step, 'expired', 'nobody answered in time')
  return end(step, 'completed', '', 'completed', output, answerLabels(step))
}

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

function end(
  step: LockedCall,
  state: Outcome,
  reason = '',
  code: string = state,
  output?: SealedText,
  outputLabels: readonly Label[] = step.effect.labels,
): Verdict {
  withdrawPending(step)
  const isBad = state !== 'completed' && state !== 'skipped'
  settle(step, {
    state,
    error: isBad ? stepError({ code, message: reason }) : null,
    output,
    outputLabels: [...outputLabels],
  })
  return { go: false, state, reason }
}
