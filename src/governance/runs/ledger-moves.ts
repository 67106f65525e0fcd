import { newId } from '../../contract/ids.ts'
import { isBadOutcome, runEnded, type Outcome } from '../../contract/status.ts'
import type { StepError } from '../../db/schema/runs.ts'
import type { Decided } from '../../policy/decide.ts'
import type { Actor } from '../audit.ts'
import type { ChainTx } from '../chain-tx.ts'
import type { SealedText } from '../sealing/format.ts'
import type { StepOp } from './effect.ts'
import type { EffectRecord, Ledger, RunState } from './ledger.ts'
import { sourceBytes, takeRoom } from './room.ts'

/** Who acts when a worker carries a run on: the run itself, for the person who started it. */
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

/** Writes the decision, its audit entry and its event. Returns its id. */
export function recordDecision(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  effect: EffectRecord,
  op: StepOp,
  decided: Decided,
  approvalId: string | null,
): string {
  const id = newId('decision')
  run.decision_seq += 1
  takeRoom(ledger, run, sourceBytes(op.labelSources))
  ledger.newDecisions.push({
    id,
    organization_id: tx.organizationId,
    run_id: run.id,
    seq: run.decision_seq,
    step_id: effect.step_id,
    item_index: itemOf(effect),
    attempt: effect.attempt,
    tool: effect.tool,
    side_effect: op.tool.sideEffect,
    verdict: decided.verdict,
    rule_id: decided.ruleId,
    rule_name: decided.ruleName,
    matched_rules: decided.matchedRules,
    reason: decided.reason,
    explanation: decided.explanation,
    labels: op.labels,
    label_sources: op.labelSources,
    params_hash: op.paramsHash,
    approval_id: approvalId,
    policy_version: tx.policy.version,
    decided_at: tx.now,
    session_id: null,
    tool_use_id: null,
    requested_by: run.requested_by,
  })
  tx.append({
    eventType: 'tool_call.decided',
    action: effect.tool,
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
      params_hash: op.paramsHash,
      approval_id: approvalId,
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
  readonly error?: StepError | null
  /** JSON text. */
  readonly output?: SealedText | undefined
  readonly outputLabels?: string[]
  readonly durationMs?: number
  /** Who settles it, when that is a person (`resolve`). */
  readonly actor?: Actor
}

/**
 * Moves a call to an outcome, to `retry` or to `unknown_outcome`, with everything that follows from it: its step (unless
 * it is one item of many), the counters and status of its run, an event and an audit entry.
 */
export function settle(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  effect: EffectRecord,
  how: Settlement,
): void {
  const waited = effect.state === 'held' || effect.state === 'unknown_outcome'
  const ended = how.state !== 'retry' && how.state !== 'unknown_outcome'
  effect.state = how.state
  effect.error = how.error ?? null
  effect.resolved_outcome = null
  effect.wants_slot = false
  // A tool that failed after its point of no return knows that nothing was done.
  if (how.state === 'retry') effect.sent_at = null
  if (how.state === 'unknown_outcome') effect.sent_at ??= tx.now.toISOString()
  if (how.output !== undefined) {
    effect.output = how.output.sealed
    takeRoom(ledger, run, how.output.bytes)
  }
  if (how.outputLabels !== undefined) effect.output_labels = how.outputLabels
  if (ended) effect.finished_at = tx.now.toISOString()
  if (how.durationMs !== undefined) effect.duration_ms = how.durationMs
  ledger.touchEffect(effect)
  if (how.state === 'completed') run.nodes_executed += 1
  if (ended && isBadOutcome(how.state) && how.state !== 'cancelled') run.nodes_failed += 1
  ledger.dirtyRuns.add(run)
  moveStep(tx, ledger, effect, how, ended)
  run.waiting += (how.state === 'unknown_outcome' ? 1 : 0) - (waited ? 1 : 0)
  const reason =
    how.state === 'unknown_outcome'
      ? `${itemOf(effect) === null ? '' : `item ${effect.item_index} of `}step \`${effect.step_id}\` may or may not have taken effect: an approver must resolve it`
      : undefined
  updateRunStatus(tx, ledger, run, reason)
  if (how.state !== 'retry') stepEvent(tx, effect, `step.${how.state}`, how.error ? { error: how.error } : {})
  tx.append({
    eventType: `tool_call.${how.state}`,
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
    },
  })
}

function moveStep(tx: ChainTx, ledger: Ledger, effect: EffectRecord, how: Settlement, ended: boolean): void {
  const step = ledger.step(effect.run_id, effect.step_id)
  if (step === undefined || how.state === 'retry') return
  step.attempts = Math.max(step.attempts, effect.attempt)
  ledger.dirtySteps.add(step)
  // A for_each step ends when all its items have (runs/items.ts); until then only waiting shows.
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

/** Brings an open run's status in line with what it waits for. */
export function updateRunStatus(tx: ChainTx, ledger: Ledger, run: RunState, pausedReason?: string): void {
  if (runEnded(run.status) || run.status === 'awaiting_approval') return
  startRun(tx, ledger, run)
  const status = run.waiting > 0 ? 'paused' : 'running'
  if (run.status !== status) {
    if (status === 'paused') tx.event(run.id, 'run.paused', { reason: pausedReason ?? 'a step is held' })
    else if (run.status === 'paused') tx.event(run.id, 'run.resumed')
    run.status = status
  }
  run.status_reason = status === 'running' ? 'the run is in progress' : (pausedReason ?? run.status_reason)
  ledger.dirtyRuns.add(run)
}

/** A run starts with its first call, however that is decided. */
export function startRun(tx: ChainTx, ledger: Ledger, run: RunState): void {
  if (run.started_at !== null) return
  run.started_at = tx.now.toISOString()
  ledger.dirtyRuns.add(run)
  tx.event(run.id, 'run.started')
}
