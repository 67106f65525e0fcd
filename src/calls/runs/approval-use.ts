import { serviceOf } from '../../tools/kit/tool.ts'
import type { HeldDetails } from '../../contract/messages.ts'
import { effectId } from '../../contract/ids.ts'
import type { Decided } from '../../policy/decide.ts'
import { quote } from '../../policy/text.ts'
import { assessRisk } from '../../policy/risk.ts'
import { seatWords } from '../../policy/seats.ts'
import { storedSeats } from '../../governance/approvals/requirement.ts'
import { unionLabels } from '../../policy/types.ts'
import {
  pendingApproval,
  type HeldAgain,
  type ApprovalRecord,
  type NewApproval,
} from '../../governance/approvals/records.ts'
import {
  announceRequest,
  expireApproval,
  markUsed,
  supersedeApproval,
  withdrawApproval,
} from '../../governance/approvals/moves.ts'
import { rejectionBy } from '../../governance/approvals/votes.ts'
import { liveConnection } from '../../governance/audit/connected.ts'
import { waitsForSlot } from '../../governance/limits/slots.ts'
import type { Exceeded } from '../../governance/limits/run-quota.ts'
import { approvalsOver } from '../../governance/limits/storage.ts'
import { heldAgain, standingNow, stepOf, tableOfRun } from '../approval-table.ts'
import { callOf, whereTo, type ResolvedCall } from './call.ts'
import { asksForChanges, changesAskedBy, editedBy, holdOf } from './revised.ts'
import { toolOf, type LockedCall, type LockedRun } from './ledger.ts'
import { recordDecision, runActor, stepEvent, updateRunStatus } from './ledger-moves.ts'
import { takeSlot } from './slot-moves.ts'
import { countStoredBytes } from './storage-limit.ts'

type ApprovalUse =
  /** The call uses its approval, if a rule requires one. */
  | { readonly kind: 'passes' }
  | ({ readonly kind: 'waits' } & HeldDetails)
  /** It would be held, but too many approvals are pending. */
  | { readonly kind: 'no_room'; readonly over: Exceeded }
  /** It would be held, but what its approvers must see was not read yet. Nothing was changed. */
  | { readonly kind: 'unseen' }
  | {
      readonly kind: 'ended'
      readonly outcome: 'rejected' | 'expired' | 'cancelled' | 'failed'
      readonly reason: string
      readonly code?: string
    }

/** The rules do not deny this call. It waits if its run gets no slot. */
export function useApproval(call: LockedCall, op: ResolvedCall, decided: Decided): ApprovalUse {
  const approval = approvalOf(call)
  if (approval === undefined && decided.verdict === 'require_approval')
    return holdCall(call, op, decided, null)
  if (approval === undefined) return takeSlot(call) ? passes : waitForSlot(call, null)
  const user = effectId(op.key)
  const standing = standingNow(call, decided, approval, user, op)
  if (standing === 'rejected' && asksForChanges(call, approval)) {
    const again = { former: approval, because: changesAskedBy(approval), hasChanged: false }
    return holdCall(call, op, decided, { ...again, asksForChanges: true })
  }
  // Nobody has edited the call yet, whatever the rules say of its former parameters.
  const isAwaited = approval.kind === 'revision' && standing !== 'revised'
  const step = stepOf(tableOfRun, standing, isAwaited ? { verdict: 'require_approval' } : decided)
  if (step.does === 'end') {
    const outcome = isAwaited && step.outcome === 'expired' ? 'rejected' : step.outcome
    if (step.notes) expireApproval(call, approval, { actor: runActor(call.run), runId: call.run.id })
    const reason = isAwaited
      ? `${approval.held_again}, and nobody made them in time`
      : outcome === 'rejected'
        ? rejectionBy(approval.votes, 'it')
        : step.reason
    return { kind: 'ended', outcome, reason }
  }
  if (step.does === 'hold') return holdCall(call, op, decided, null)
  if (step.does === 'hold_again') {
    const hasChanged = step.because === 'state'
    const because =
      step.because === 'revised'
        ? editedBy(call, approval)
        : hasChanged
          ? `${op.changed} ${heldAgain.state}`
          : heldAgain[step.because]
    return holdCall(call, op, decided, { former: approval, because, hasChanged })
  }
  if (step.does === 'wait')
    return { kind: 'waits', waitsFor: 'approval', approvalId: approval.id, expiresAt: approval.expires_at }
  // Take the slot first, because all conditions above may change while the run waits for a slot.
  if (!takeSlot(call)) return waitForSlot(call, step.does === 'use' ? approval.expires_at : null)
  if (step.does === 'go') withdrawPending(call)
  else if (approval.used_by === null) markUsed(call, approval, user)
  return passes
}

const passes: ApprovalUse = { kind: 'passes' }

/** The approval that the call waits for, or that let it through. */
const approvalOf = ({ ledger, effect }: LockedCall): ApprovalRecord | undefined =>
  effect.approval_id === null ? undefined : ledger.approvals.get(effect.approval_id)

/** The call is held until then, and is decided again (slot-moves.ts). */
function waitForSlot(call: LockedCall, expiresAt: string | null): ApprovalUse {
  const { tx, ledger, run, effect } = call
  if (effect.state !== 'held' && effect.state !== 'unknown_outcome') run.waiting += 1
  if (effect.state !== 'unknown_outcome') effect.state = 'held'
  ledger.touchEffect(effect)
  updateRunStatus(call, waitsForSlot(tx.policy.limits.concurrent_executions))
  if (!effect.wants_slot)
    tx.append({
      eventType: 'run.waits_for_slot',
      action: toolOf(effect),
      status: 'pending',
      actor: runActor(run),
      workflowId: run.workflow_id,
      runId: run.id,
      metadata: { step_id: effect.step_id, limit: tx.policy.limits.concurrent_executions },
    })
  effect.wants_slot = true
  return { kind: 'waits', waitsFor: 'slot', approvalId: effect.approval_id, expiresAt }
}

/** The call has ended or needs no approval now. */
export function withdrawPending(call: LockedCall): void {
  const approval = approvalOf(call)
  if (approval?.status === 'pending') withdrawApproval(call, approval)
}

/** What the approvers see must be read before a person is asked. */
export function isUnseen({ tx, run }: LockedRun, { tool, seen, wanted, problem }: ResolvedCall): boolean {
  if (seen !== undefined || !wanted || problem !== null) return false
  if (tool.precondition !== undefined) return true
  const service = serviceOf(tool)
  return service !== null && liveConnection(tx.policy.connections, service, run.requested_by) !== null
}

/** The state that the approvers saw may change so often. At the next change, the call fails. */
export const mostChanges = 5

function changedTooOften({ changed }: ResolvedCall): ApprovalUse {
  const reason = `${changed ?? 'what it changes'} changed ${mostChanges + 1} times after the call was approved: find out who changes it, then run the workflow again`
  return { kind: 'ended', outcome: 'failed', reason, code: 'changed_too_often' }
}

/** The new approval replaces an earlier one that no longer covers the call. */
function holdCall(
  call: LockedCall,
  op: ResolvedCall,
  decided: Decided,
  again: HeldAgain | null,
): ApprovalUse {
  const { tx, ledger, run, effect } = call
  if (again?.hasChanged === true && again.former.state_changes >= mostChanges) return changedTooOften(op)
  if (again?.asksForChanges !== true && isUnseen(call, op)) return { kind: 'unseen' }
  const isMore = again?.former.status !== 'pending'
  const bytes = op.sealed.length + (op.seen?.sealed.length ?? 0)
  const over = isMore ? approvalsOver(tx) : null
  if (over !== null) return { kind: 'no_room', over }
  tx.expects({ bytes, approvals: isMore ? 1 : 0 })
  const { sideEffect, destination = null } = callOf(op, whereTo(call, op))
  const { terms, vote, ...asked } = holdOf(call, op, decided, again)
  const record = pendingApproval(
    tx,
    {
      ...asked,
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
    terms,
    { ...decided, expiresAfterSeconds: decided.expiresAfterSeconds ?? op.approvalSeconds },
    { id: op.seen?.approvalId, again },
  )
  const approval: NewApproval = {
    record,
    sealed: op.sealed,
    state: op.seen?.sealed ?? null,
    tool: toolOf(effect),
    side_effect: sideEffect,
    destination,
    rule_id: decided.ruleId,
    risk: assessRisk([{ sideEffect, risk: op.tool.risk, labels: op.labels }]),
    ...(vote === undefined ? {} : { vote }),
  }
  ledger.addApproval(approval)
  if (again !== null) supersedeApproval(call, again.former, record.id)
  countStoredBytes(call, bytes)
  if (effect.state !== 'held' && effect.state !== 'unknown_outcome') run.waiting += 1
  effect.state = 'held'
  effect.wants_slot = false
  effect.approval_id = record.id
  const why = again === null ? '' : ` It is held again: ${again.because}.`
  effect.decision_id = recordDecision(
    call,
    op,
    { ...decided, explanation: `${decided.explanation}${why}` },
    record.id,
  )
  record.decision_id = effect.decision_id
  ledger.touchEffect(effect)
  showHeld(call, approval)
  return { kind: 'waits', waitsFor: 'approval', approvalId: record.id, expiresAt: record.expires_at }
}

function showHeld(call: LockedCall, approval: NewApproval): void {
  const { tx, ledger, run, effect } = call
  const { id, rule_name } = approval.record
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
  const who = seatWords(storedSeats(approval.record))
  const why = rule_name === null ? '' : ` (rule ${quote(rule_name)})`
  const again = approval.record.held_again === null ? '' : `: ${approval.record.held_again}`
  const what = approval.record.kind === 'revision' ? 'changes' : 'approval'
  updateRunStatus(call, `step \`${effect.step_id}\` waits for ${what} by ${who}${why}${again}`)
}
