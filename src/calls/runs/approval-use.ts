import { serviceOf } from '../../tools/kit/tool.ts'
import type { HeldDetails } from '../../contract/messages.ts'
import type { Decided } from '../../policy/decide.ts'
import { quote } from '../../policy/words.ts'
import { assessRisk } from '../../policy/risk.ts'
import { unionLabels } from '../../policy/types.ts'
import {
  heldAgain,
  pendingApproval,
  requirementNow,
  stateAtUse,
  type HeldAgain,
} from '../../governance/approvals/held.ts'
import {
  announceRequest,
  expireApproval,
  markUsed,
  supersedeApproval,
  withdrawApproval,
} from '../../governance/approvals/moves.ts'
import type { ApprovalState } from '../../governance/approvals/state.ts'
import { rejectionBy } from '../../governance/approvals/votes.ts'
import type { ApprovalRecord, NewApproval } from '../../governance/approvals/records.ts'
import { effectId } from '../../contract/effect-key.ts'
import type { DecidingCall, LockedCall, LockedRun } from './run-call.ts'
import type { StepOp } from './step-op.ts'
import { callOf, whereTo } from './decide-call.ts'
import { recordDecision, runActor, stepEvent, updateRunStatus } from './ledger-moves.ts'
import { liveConnection } from '../../governance/audit/connected.ts'
import { countStoredBytes } from './storage-limit.ts'
import { takeSlot } from './slot-moves.ts'
import { waitsForSlot } from '../../governance/limits/slots.ts'
import type { Exceeded } from '../../governance/limits/run-quota.ts'
import { approvalsOver } from '../../governance/limits/storage.ts'

export type ApprovalUse =
  | { readonly kind: 'used' }
  | ({ readonly kind: 'waits' } & HeldDetails)
  /** The call would be held, but too many approvals are pending. */
  | { readonly kind: 'no_room'; readonly over: Exceeded }
  /** The call would be held, but the data that its approvers must see was not read yet. Nothing was changed. */
  | { readonly kind: 'unseen' }
  | {
      readonly kind: 'ended'
      readonly outcome: 'rejected' | 'expired' | 'cancelled' | 'failed'
      readonly reason: string
      readonly code?: string
    }

type Ended = Extract<ApprovalUse, { kind: 'ended' }>

/**
 * Decides whether a call for which a rule requires an approval may run now. If the call has no approval yet, the call
 * is held. An approval covers one call with all its technical retries. The call can use its approval if all these
 * conditions are true:
 *
 * - No other call has used the approval.
 * - The votes satisfy the strictest rule that matches now.
 * - The parameters are the approved parameters, and the approvers have seen all labels.
 * - The state that the approvers saw has not changed.
 *
 * Otherwise the call is held again. But if the approval is still pending and covers the parameters and labels, the call
 * waits. A rejected, withdrawn or expired approval ends the call. Expiry is compared with the database's clock.
 */
export function useApproval(call: DecidingCall, decided: Decided): ApprovalUse {
  const { op } = call
  const approval = approvalOf(call)
  if (approval === undefined) return holdCall(call, decided, null)
  const holdAgain = (because: string, hasChanged = false): ApprovalUse =>
    holdCall(call, decided, { former: approval, because, hasChanged })
  const user = effectId(op.key)
  const state = stateAtUse(call, decided, approval, user)
  if (state === 'used') return holdAgain(heldAgain.used)
  const ended = endedBy(call, approval, state)
  if (ended !== null) return ended
  if (approval.params_hash !== op.paramsHash) return holdAgain(heldAgain.params)
  const shown = new Set(approval.labels)
  if (op.labels.some((label) => !shown.has(label))) return holdAgain(heldAgain.labels)
  if (approval.status === 'pending')
    return { kind: 'waits', waitsFor: 'approval', approvalId: approval.id, expiresAt: approval.expires_at }
  if (state !== 'usable') return holdAgain(heldAgain.votes)
  if (op.changed !== undefined) return holdAgain(`${op.changed} has changed since it was approved`, true)
  // Take the slot before the approval is used, because all conditions above may change while the run waits for a slot.
  if (!takeSlot(call)) return waitForSlot(call, approval.expires_at)
  if (approval.used_by === null) markUsed(call, approval, user)
  return { kind: 'used' }
}

/** The approval that the call waits for, or the approval that let the call through. */
const approvalOf = ({ ledger, effect }: LockedCall): ApprovalRecord | undefined =>
  effect.approval_id === null ? undefined : ledger.approvals.get(effect.approval_id)

function endedBy(call: LockedCall, approval: ApprovalRecord, state: ApprovalState): Ended | null {
  if (state === 'rejected')
    return { kind: 'ended', outcome: 'rejected', reason: rejectionBy(approval.votes, 'it') }
  if (state === 'withdrawn')
    return { kind: 'ended', outcome: 'cancelled', reason: 'its approval was withdrawn' }
  if (state !== 'expired') return null
  // An approval can expire after it was given, because it must be used before its time is over. This is also true if no
  // process was running when the approval expired.
  const reason =
    approval.status === 'approved' ? 'its approval expired before it was used' : 'nobody approved it in time'
  if (approval.status === 'pending')
    expireApproval(call, approval, { actor: runActor(call.run), runId: call.run.id })
  return { kind: 'ended', outcome: 'expired', reason }
}

/**
 * Lets a call pass if no rule requires an approval now. Withdraws the call's pending approval and returns null if the
 * call may run. The call waits if its run gets no slot. The call ends if its approval was rejected, withdrawn or not
 * given in time.
 */
export function releaseHold(
  call: LockedCall,
  decided: Decided,
): Extract<ApprovalUse, { kind: 'waits' | 'ended' }> | null {
  const approval = approvalOf(call)
  if (approval !== undefined && approval.status !== 'approved') {
    const ended = endedBy(call, approval, stateAtUse(call, decided, approval, null))
    if (ended !== null) return ended
  }
  if (!takeSlot(call)) return waitForSlot(call, null)
  withdrawPending(call)
  return null
}

/** Holds an allowed call until its run has a slot. Then the call is decided again (slot-moves.ts). */
function waitForSlot(call: LockedCall, expiresAt: string | null): ApprovalUse & { kind: 'waits' } {
  const { tx, ledger, run, effect } = call
  if (effect.state !== 'held' && effect.state !== 'unknown_outcome') run.waiting += 1
  if (effect.state !== 'unknown_outcome') effect.state = 'held'
  ledger.touchEffect(effect)
  updateRunStatus(call, waitsForSlot(tx.policy.limits.concurrent_executions))
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

/** Withdraws a call's pending approval, because the call has ended or needs no approval now. */
export function withdrawPending(call: LockedCall): void {
  const approval = approvalOf(call)
  if (approval?.status === 'pending') withdrawApproval(call, approval)
}

/**
 * Returns whether a worker must still read the data that the approvers see. This data is the state that the call would
 * change, and the call's connection. It must be read before a person is asked for an approval.
 */
export function isUnseen({ tx, run }: LockedRun, { tool, seen, wanted, problem }: StepOp): boolean {
  if (seen !== undefined || !wanted || problem !== null) return false
  if (tool.precondition !== undefined) return true
  const service = serviceOf(tool)
  return service !== null && liveConnection(tx.policy.connections, service, run.requested_by) !== null
}

/** The state that the approvers saw may change at most this many times. At the next change, the call fails. */
export const mostChanges = 5

function changedTooOften({ changed }: StepOp): Extract<ApprovalUse, { kind: 'ended' }> {
  const reason = `${changed ?? 'what it changes'} changed ${mostChanges + 1} times after the call was approved: find out who changes it, then run the workflow again`
  return { kind: 'ended', outcome: 'failed', reason, code: 'changed_too_often' }
}

/**
 * Holds the call with a new approval. If an earlier approval no longer covers the call, the new approval replaces the
 * earlier one.
 */
function holdCall(call: DecidingCall, decided: Decided, again: HeldAgain | null): ApprovalUse {
  const { tx, ledger, run, effect, op } = call
  if (again?.hasChanged === true && again.former.state_changes >= mostChanges) return changedTooOften(op)
  if (isUnseen(call, op)) return { kind: 'unseen' }
  const isMore = again?.former.status !== 'pending'
  const bytes = op.sealed.length + (op.seen?.sealed.length ?? 0)
  const over = isMore ? approvalsOver(tx) : null
  if (over !== null) return { kind: 'no_room', over }
  tx.expects({ bytes, approvals: isMore ? 1 : 0 })
  const record = pendingApproval(
    tx,
    {
      kind: 'step',
      run_id: run.id,
      workflow_id: run.workflow_id,
      step_id: effect.step_id,
      item_index: effect.item_index < 0 ? null : effect.item_index,
      session_id: null,
      requested_by: run.requested_by,
      authors: run.authors,
      params_hash: op.paramsHash,
      labels: op.labels,
      rule_name: decided.ruleName,
      decision_id: null,
    },
    requirementNow(tx, decided),
    decided.expiresAfterSeconds ?? op.approvalSeconds,
    { id: op.seen?.approvalId, again },
  )
  const { id } = record
  const { sideEffect, destination = null } = callOf(op, whereTo(call, op))
  const approval: NewApproval = {
    record,
    sealed: op.sealed,
    state: op.seen?.sealed ?? null,
    tool: effect.tool,
    side_effect: sideEffect,
    destination,
    rule_id: decided.ruleId,
    risk: assessRisk([{ sideEffect, risk: op.tool.risk, labels: op.labels }]),
  }
  ledger.addApproval(approval)
  countStoredBytes(call, bytes)
  if (again !== null) supersedeApproval(call, again.former, id)
  if (effect.state !== 'held' && effect.state !== 'unknown_outcome') run.waiting += 1
  effect.state = 'held'
  effect.wants_slot = false
  effect.approval_id = id
  const why = again === null ? '' : ` It is held again: ${again.because}.`
  effect.decision_id = recordDecision(call, { ...decided, explanation: `${decided.explanation}${why}` }, id)
  record.decision_id = effect.decision_id
  ledger.touchEffect(effect)
  showHeld(call, approval)
  return { kind: 'waits', waitsFor: 'approval', approvalId: id, expiresAt: record.expires_at }
}

function showHeld(call: LockedCall, approval: NewApproval): void {
  const { tx, ledger, run, effect } = call
  const { id, rule_name, approver } = approval.record
  const step = ledger.step(effect.run_id, effect.step_id)
  if (step !== undefined) {
    step.status = 'held'
    step.labels = unionLabels(step.labels, effect.labels)
    step.verdict = 'require_approval'
    step.started_at ??= tx.now.toISOString()
    ledger.dirtySteps.add(step)
  }
  stepEvent(tx, effect, 'step.held', { approval_id: id, rule_name })
  announceRequest(tx, approval, { actor: runActor(run), runId: run.id })
  const who = approver === 'owner' ? 'an owner' : 'an admin or owner'
  const why = rule_name === null ? '' : ` (rule ${quote(rule_name)})`
  const again = approval.record.held_again === null ? '' : `: ${approval.record.held_again}`
  updateRunStatus(call, `step \`${effect.step_id}\` waits for approval by ${who}${why}${again}`)
}
