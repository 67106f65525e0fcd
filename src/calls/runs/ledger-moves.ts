import { callId, newId } from '../../contract/ids.ts'
import { isBadOutcome, runEnded, type Outcome } from '../../contract/status.ts'
import type { PastOutcome } from '../../db/schema/runs.ts'
import type { Decided } from '../../policy/decide.ts'
import type { Actor } from '../../governance/audit/entry.ts'
import type { ChainTx } from '../../governance/audit/chain-tx.ts'
import type { SealedText } from '../../governance/sealing/format.ts'
import { toolOf, type EffectRecord, type RunState, type LockedCall, type LockedRun } from './ledger.ts'
import { callOf, whereTo, type NewError, type ResolvedCall } from './call.ts'
import { sourceBytes, countStoredBytes } from './storage-limit.ts'

/** The actor in the audit log if a worker continues the run. */
export const runActor = (run: Pick<RunState, 'id'>): Actor => ({ type: 'system', id: run.id })

const itemOf = (effect: EffectRecord): number | null => (effect.item_index < 0 ? null : effect.item_index)

export function stepEvent(
  tx: ChainTx,
  effect: EffectRecord,
  type: string,
  data: Record<string, unknown> = {},
): void {
  tx.event(effect.run_id, type, {
    step_id: effect.step_id,
    item_index: itemOf(effect),
    tool: effect.tool,
    ...data,
  })
}

/** Also writes the audit entry and the event. Returns the decision's id. */
export function recordDecision(
  call: LockedCall,
  op: ResolvedCall,
  decided: Decided,
  approvalId: string | null,
): string {
  const { tx, ledger, run, effect } = call
  const id = newId('decision')
  const { sideEffect, destination = null } = callOf(op, whereTo(call, op))
  // If this attempt did not read the parameters, the row has the hash from an earlier one.
  const paramsHash = effect.params_hash ?? op.paramsHash
  run.decision_seq += 1
  countStoredBytes(call, sourceBytes(op.labelSources))
  ledger.newDecisions.push({
    id,
    organization_id: tx.organizationId,
    run_id: run.id,
    seq: run.decision_seq,
    step_id: effect.step_id,
    item_index: itemOf(effect),
    attempt: effect.attempt,
    tool: toolOf(effect),
    side_effect: sideEffect,
    destination,
    verdict: decided.verdict,
    rule_id: decided.ruleId,
    rule_name: decided.ruleName,
    matched_rules: decided.matchedRules,
    reason: decided.reason,
    explanation: decided.explanation,
    labels: op.labels,
    label_sources: op.labelSources,
    params_hash: paramsHash,
    approval_id: approvalId,
    policy_version: tx.policy.version,
    decided_at: tx.now,
    session_id: null,
    tool_use_id: null,
    requested_by: run.requested_by,
  })
  tx.append({
    eventType: 'tool_call.decided',
    action: toolOf(effect),
    status: decided.verdict,
    actor: runActor(run),
    workflowId: run.workflow_id,
    runId: run.id,
    metadata: {
      decision_id: id,
      step_id: effect.step_id,
      item_index: itemOf(effect),
      requested_by: run.requested_by,
      rule_id: decided.ruleId,
      rule_name: decided.ruleName,
      labels: op.labels,
      params_hash: paramsHash,
      approval_id: approvalId,
      destination,
    },
  })
  stepEvent(tx, effect, 'step.decided', {
    verdict: decided.verdict,
    rule_name: decided.ruleName,
    decision_id: id,
  })
  return id
}

export interface Settlement {
  readonly state: Outcome | 'retry' | 'unknown_outcome'
  readonly error?: NewError | null
  /** JSON text of values that belong to the error. */
  readonly errorDetail?: SealedText | undefined
  readonly output?: SealedText | undefined
  readonly outputLabels?: string[]
  readonly durationMs?: number
  /** Only the log gets this, because the audit entry `tool_call.decided` already contains it. */
  readonly ruleId?: string | null
  /** The person who settles the call with `resolve`, or else the run. */
  readonly actor?: Actor
}

/** Also updates the step, and the counters and status of the run. Writes an event and an audit entry. */
export function settle(call: LockedCall, how: Settlement): void {
  const { tx, ledger, run, effect } = call
  const waited = effect.state === 'held' || effect.state === 'unknown_outcome'
  const ended = how.state !== 'retry' && how.state !== 'unknown_outcome'
  if (effect.state === 'unknown_outcome' || how.state === 'unknown_outcome') tx.notice('call', callId(effect))
  saveOnEffect(call, how, ended)
  ledger.touchEffect(effect)
  if (how.state === 'completed' && effect.reused_from === null) run.nodes_executed += 1
  if (ended && isBadOutcome(how.state) && how.state !== 'cancelled') run.nodes_failed += 1
  ledger.dirtyRuns.add(run)
  moveStep(call, how, ended)
  run.waiting += (how.state === 'unknown_outcome' ? 1 : 0) - (waited ? 1 : 0)
  const reason =
    how.state === 'unknown_outcome'
      ? `${itemOf(effect) === null ? '' : `item ${effect.item_index} of `}step \`${effect.step_id}\` may or may not have taken effect: an approver must resolve it`
      : undefined
  // This event comes before `run.paused`, because this call is what pauses the run.
  if (how.state === 'unknown_outcome') stepEvent(tx, effect, 'step.unknown_outcome')
  updateRunStatus(call, reason)
  if (how.state !== 'retry' && how.state !== 'unknown_outcome')
    stepEvent(tx, effect, `step.${how.state}`, {
      ...(how.error ? { error: how.error } : {}),
      ...(effect.reused_from === null ? {} : { reused_from: effect.reused_from }),
    })
  if (effect.tool === null) return appendEndWithoutCall(call, how)
  const { reused_from: reusedFrom } = effect
  tx.append({
    eventType: reusedFrom === null ? `tool_call.${how.state}` : 'tool_call.reused',
    action: effect.tool,
    status: how.state,
    actor: how.actor ?? runActor(run),
    workflowId: run.workflow_id,
    runId: run.id,
    durationMs: how.durationMs ?? null,
    metadata: {
      step_id: effect.step_id,
      item_index: itemOf(effect),
      attempt: effect.attempt,
      decision_id: effect.decision_id,
      params_hash: effect.params_hash,
      error_code: how.error?.code ?? null,
      ...(reusedFrom === null ? {} : { reused_from: reusedFrom }),
    },
    ...(how.ruleId ? { logged: { rule_id: how.ruleId } } : {}),
  })
  if (how.state === 'unknown_outcome')
    tx.publish('effect.unknown', {
      run_id: run.id,
      workflow_id: run.workflow_id,
      step_id: effect.step_id,
      item_index: itemOf(effect),
      tool: effect.tool,
    })
}

/** The end of a step that makes no call is an event of the step. */
function appendEndWithoutCall({ tx, ledger, run, effect }: LockedCall, { state, error }: Settlement): void {
  if (state === 'retry' || state === 'unknown_outcome')
    throw new Error(`a step without a tool cannot become \`${state}\``)
  tx.append({
    eventType: `step.${state}`,
    action: ledger.step(effect.run_id, effect.step_id)?.kind ?? '',
    status: state,
    actor: runActor(run),
    workflowId: run.workflow_id,
    runId: run.id,
    metadata: {
      step_id: effect.step_id,
      item_index: itemOf(effect),
      error_code: error?.code ?? null,
      ...(effect.reused_from === null ? {} : { reused_from: effect.reused_from }),
    },
  })
}

function saveOnEffect(call: LockedCall, how: Settlement, ended: boolean): void {
  const { tx, effect } = call
  effect.state = how.state
  if (how.state === 'retry') noteOutcome(effect, 'failed')
  effect.error = how.error ?? null
  effect.errorDetail = how.errorDetail?.sealed ?? null
  if (how.errorDetail !== undefined) countStoredBytes(call, how.errorDetail.bytes)
  effect.resolved_outcome = null
  effect.wants_slot = false
  // After its point of no return, a tool reports a temporary failure only if it knows that nothing was done.
  if (how.state === 'retry') effect.sent_at = effect.sent_with = null
  if (how.state === 'unknown_outcome') effect.sent_at ??= tx.now.toISOString()
  if (how.output !== undefined) {
    effect.output = how.output.sealed
    countStoredBytes(call, how.output.bytes)
  }
  if (how.outputLabels !== undefined) effect.output_labels = how.outputLabels
  if (ended) effect.finished_at = tx.now.toISOString()
  if (how.durationMs !== undefined) effect.duration_ms = how.durationMs
}

/** A body that has been counted already is not counted again. */
export function countBody(effect: EffectRecord): void {
  if (!effect.body_counted) effect.bodies += 1
  effect.body_counted = true
}

/** Call this before another attempt begins. */
export function noteOutcome(effect: EffectRecord, outcome: PastOutcome['outcome']): void {
  if (effect.decision_id === null) return
  const past = [...effect.past_outcomes, { decision_id: effect.decision_id, outcome }]
  effect.past_outcomes = past.slice(-50)
}

function moveStep({ tx, ledger, effect }: LockedCall, how: Settlement, ended: boolean): void {
  const step = ledger.step(effect.run_id, effect.step_id)
  if (step === undefined) return
  if (how.state === 'retry') {
    if (effect.item_index >= 0) return
    // Until its next outcome, the step shows the error of this attempt.
    step.error = how.error ?? null
    ledger.dirtySteps.add(step)
    return
  }
  // A decision that no body followed must not count. The items of a step share the highest number.
  const isWhole = effect.item_index < 0 && ended
  step.attempts = isWhole ? effect.bodies : Math.max(step.attempts, effect.bodies)
  ledger.dirtySteps.add(step)
  // The end of the run has already ended the step, so a late outcome changes only the item.
  if (effect.item_index >= 0 && step.finished_at !== null) return
  // Until all items have ended (finish-items.ts), the step's status only shows whether items wait.
  if (effect.item_index >= 0 && ended) {
    if (step.status === 'unknown_outcome' || step.status === 'held') step.status = 'running'
    return
  }
  step.status = how.state as typeof step.status
  step.error = how.error ?? null
  if (!ended) return
  step.started_at ??= tx.now.toISOString()
  step.finished_at = tx.now.toISOString()
  step.labels = effect.output_labels
  if (how.state === 'denied') step.verdict = 'deny'
}

/** An open run is `paused` if one of its calls waits. */
export function updateRunStatus(locked: LockedRun, pausedReason?: string): void {
  const { tx, ledger, run } = locked
  if (runEnded(run.status) || run.status === 'awaiting_approval') return
  startRun(locked)
  const status = run.waiting > 0 ? 'paused' : 'running'
  if (run.status !== status) {
    if (status === 'paused') tx.event(run.id, 'run.paused', { reason: pausedReason ?? 'a step is held' })
    else if (run.status === 'paused') tx.event(run.id, 'run.resumed')
    run.status = status
  }
  run.status_reason = status === 'running' ? 'the run is in progress' : (pausedReason ?? run.status_reason)
  ledger.dirtyRuns.add(run)
}

/** A run starts when its first call is decided or its first items are counted. */
export function startRun({ tx, ledger, run }: LockedRun): void {
  if (run.started_at !== null) return
  run.started_at = tx.now.toISOString()
  ledger.dirtyRuns.add(run)
  tx.event(run.id, 'run.started')
}
