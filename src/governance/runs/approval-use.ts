import type { HeldDetails } from '../../contract/messages.ts'
import type { Decided } from '../../policy/decide.ts'
import { assessRisk } from '../../policy/risk.ts'
import { unionLabels } from '../../policy/types.ts'
import { pendingApproval, suffices } from '../approvals/held.ts'
import { rejectionBy } from '../approvals/votes.ts'
import type { ChainTx } from '../chain-tx.ts'
import type { StepOp } from './effect.ts'
import type { ApprovalRecord } from '../records.ts'
import { effectId, type EffectRecord, type Ledger, type RunState } from './ledger.ts'
import { recordDecision, runActor, stepEvent, updateRunStatus } from './ledger-moves.ts'
import { takeRoom } from './room.ts'
import { takeSlot } from './slot-moves.ts'
import { waitsForSlot } from '../quotas/slots.ts'
import type { Exceeded } from '../quotas/run-quota.ts'
import { approvalsOver } from '../quotas/storage.ts'

export type ApprovalUse =
  | { readonly kind: 'used' }
  | ({ readonly kind: 'waits' } & HeldDetails)
  /** It would be held, and too many approvals wait already. */
  | { readonly kind: 'no_room'; readonly over: Exceeded }
  | {
      readonly kind: 'ended'
      readonly outcome: 'rejected' | 'expired' | 'cancelled'
      readonly reason: string
    }

type Ended = Extract<ApprovalUse, { kind: 'ended' }>

/**
 * Whether this held call may run now (contract section 6, design section 3). An approval covers one call with all its
 * technical retries. At use the votes must satisfy the strictest rule that matches now, the parameters must be those
 * approved, the labels no more than those shown; otherwise the call is held anew. Expiry is judged by the database's
 * clock.
 */
export function useApproval(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  effect: EffectRecord,
  op: StepOp,
  decided: Decided,
): ApprovalUse {
  const approval = effect.approval_id === null ? undefined : ledger.approvals.get(effect.approval_id)
  const hold = (): ApprovalUse => holdCall(tx, ledger, run, effect, op, decided, approval)
  if (approval === undefined) return hold()
  const mine = approval.used_by === effectId(op.key)
  if (approval.used_by !== null && !mine) return hold()
  const ended = endedBy(tx, ledger, run, approval, mine)
  if (ended !== null) return ended
  if (approval.params_hash !== op.paramsHash) return hold()
  const shown = new Set(approval.labels)
  if (op.labels.some((label) => !shown.has(label))) return hold()
  if (approval.status === 'pending')
    return { kind: 'waits', waitsFor: 'approval', approvalId: approval.id, expiresAt: approval.expires_at }
  if (!suffices(tx, decided, approval, ledger.roles)) return hold()
  // Before it is used up: while the run waits for a slot everything above may change, and is judged again.
  if (!takeSlot(tx, ledger, run)) return waitForSlot(tx, ledger, run, effect, approval.expires_at)
  if (!mine) {
    approval.used_at = tx.now.toISOString()
    approval.used_by = effectId(op.key)
    ledger.dirtyApprovals.add(approval)
  }
  return { kind: 'used' }
}

function endedBy(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  approval: ApprovalRecord,
  mine: boolean,
): Ended | null {
  const { status } = approval
  if (status === 'rejected')
    return { kind: 'ended', outcome: 'rejected', reason: rejectionBy(approval.votes, 'it') }
  if (status === 'cancelled')
    return { kind: 'ended', outcome: 'cancelled', reason: 'its approval was withdrawn' }
  const late = !mine && approval.expires_at !== null && new Date(approval.expires_at) <= tx.now
  if (status !== 'expired' && !late) return null
  if (status === 'pending') expireApproval(tx, ledger, run, approval)
  // Authority does not live longer because a process was away: what was approved must also be used in time.
  const reason =
    status === 'approved' ? 'its approval expired before it was used' : 'nobody approved it in time'
  return { kind: 'ended', outcome: 'expired', reason }
}

/**
 * For a held call that no rule holds any more. A refusal or expiry that came before is what it ends with; an approval
 * that still waits is withdrawn, since nobody needs to decide it. Null: the call may run.
 */
export function releaseHold(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  effect: EffectRecord,
): Extract<ApprovalUse, { kind: 'waits' | 'ended' }> | null {
  const approval = effect.approval_id === null ? undefined : ledger.approvals.get(effect.approval_id)
  if (approval !== undefined && approval.status !== 'approved') {
    const ended = endedBy(tx, ledger, run, approval, false)
    if (ended !== null) return ended
  }
  if (!takeSlot(tx, ledger, run)) return waitForSlot(tx, ledger, run, effect, null)
  withdrawApproval(tx, ledger, run, effect)
  return null
}

/** Holds a call that may run until its run has a slot; the call is decided again then (slot-moves.ts). */
function waitForSlot(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  effect: EffectRecord,
  expiresAt: string | null,
): ApprovalUse & { kind: 'waits' } {
  if (effect.state !== 'held' && effect.state !== 'unknown_outcome') run.waiting += 1
  if (effect.state !== 'unknown_outcome') effect.state = 'held'
  ledger.touchEffect(effect)
  updateRunStatus(tx, ledger, run, waitsForSlot(tx.policy.limits.concurrent_executions))
  if (!effect.wants_slot)
    tx.append({
      eventType: 'run.waits_for_slot',
      action: effect.tool,
      status: 'pending',
      actor: runActor(run),
      workflowId: run.workflow_id,
      runId: run.id,
      metadata: { step_id: effect.step_id, limit: tx.policy.limits.concurrent_executions },
    })
  effect.wants_slot = true
  return { kind: 'waits', waitsFor: 'slot', approvalId: effect.approval_id, expiresAt }
}

/** Takes a call's waiting approval out of the inbox: the call has ended, or needs none any more. */
export function withdrawApproval(tx: ChainTx, ledger: Ledger, run: RunState, effect: EffectRecord): void {
  const approval = effect.approval_id === null ? undefined : ledger.approvals.get(effect.approval_id)
  if (approval?.status === 'pending') withdraw(tx, ledger, run, approval)
}

function withdraw(tx: ChainTx, ledger: Ledger, run: RunState, approval: ApprovalRecord): void {
  approval.status = 'cancelled'
  approval.decided_at = tx.now.toISOString()
  ledger.dirtyApprovals.add(approval)
  tx.event(run.id, 'approval.decided', { approval_id: approval.id, status: 'cancelled' })
}

/** `expired`, never `rejected` (contract section 6). */
function expireApproval(tx: ChainTx, ledger: Ledger, run: RunState, approval: ApprovalRecord): void {
  approval.status = 'expired'
  approval.decided_at = tx.now.toISOString()
  ledger.dirtyApprovals.add(approval)
  tx.event(run.id, 'approval.decided', { approval_id: approval.id, status: 'expired' })
  tx.append({
    eventType: 'approval.expired',
    action: 'expire',
    status: 'expired',
    actor: runActor(run),
    workflowId: run.workflow_id,
    runId: run.id,
    metadata: { approval_id: approval.id },
  })
}

/** Holds the call: a new approval, which replaces `former` where that one no longer covers it. */
function holdCall(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  effect: EffectRecord,
  op: StepOp,
  decided: Decided,
  former: ApprovalRecord | undefined,
): ApprovalUse {
  const isMore = former?.status !== 'pending'
  const over = isMore ? approvalsOver(tx) : null
  if (over !== null) return { kind: 'no_room', over }
  tx.expects({ bytes: op.sealed.length, approvals: isMore ? 1 : 0 })
  const record = pendingApproval(
    tx,
    decided,
    {
      kind: 'step',
      run_id: run.id,
      step_id: effect.step_id,
      item_index: effect.item_index < 0 ? null : effect.item_index,
      session_id: null,
      requested_by: run.requested_by,
      params_hash: op.paramsHash,
      labels: op.labels,
    },
    op.approvalSeconds,
  )
  const { id } = record
  ledger.addApproval({
    record,
    sealed: op.sealed,
    workflow_id: run.workflow_id,
    tool: effect.tool,
    side_effect: op.tool.sideEffect,
    rule_id: decided.ruleId,
    risk: assessRisk([{ sideEffect: op.tool.sideEffect, risk: op.tool.risk, labels: op.labels }]),
  })
  takeRoom(ledger, run, op.sealed.length)
  if (former !== undefined) supersede(tx, ledger, run, former, id)
  if (effect.state !== 'held' && effect.state !== 'unknown_outcome') run.waiting += 1
  effect.state = 'held'
  effect.wants_slot = false
  effect.approval_id = id
  effect.decision_id = recordDecision(tx, ledger, run, effect, op, decided, id)
  ledger.touchEffect(effect)
  showHeld(tx, ledger, run, effect, record, decided)
  return { kind: 'waits', waitsFor: 'approval', approvalId: id, expiresAt: record.expires_at }
}

function supersede(tx: ChainTx, ledger: Ledger, run: RunState, former: ApprovalRecord, by: string): void {
  if (former.status === 'pending') withdraw(tx, ledger, run, former)
  former.superseded_by = by
  ledger.dirtyApprovals.add(former)
}

function showHeld(
  tx: ChainTx,
  ledger: Ledger,
  run: RunState,
  effect: EffectRecord,
  approval: ApprovalRecord,
  decided: Decided,
): void {
  const step = ledger.step(effect.run_id, effect.step_id)
  if (step !== undefined) {
    step.status = 'held'
    step.labels = unionLabels(step.labels, effect.labels)
    step.verdict = 'require_approval'
    step.started_at ??= tx.now.toISOString()
    ledger.dirtySteps.add(step)
  }
  stepEvent(tx, effect, 'step.held', { approval_id: approval.id, rule_name: decided.ruleName })
  tx.event(run.id, 'approval.created', { approval_id: approval.id, step_id: effect.step_id })
  const who = approval.approver === 'owner' ? 'an owner' : 'an admin or owner'
  const why = decided.ruleName === null ? '' : ` (rule \`${decided.ruleName}\`)`
  updateRunStatus(tx, ledger, run, `step \`${effect.step_id}\` waits for approval by ${who}${why}`)
  tx.append({
    eventType: 'approval.requested',
    action: effect.tool,
    status: 'pending',
    actor: runActor(run),
    workflowId: run.workflow_id,
    runId: run.id,
    metadata: { approval_id: approval.id, step_id: effect.step_id, rule_name: decided.ruleName },
  })
}
