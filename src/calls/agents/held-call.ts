import type { Decided } from '../../policy/decide.ts'
import { assessRisk } from '../../policy/risk.ts'
import {
  heldAgain,
  pendingApproval,
  requirementNow,
  stateAtUse,
  type HeldAgain,
} from '../../governance/approvals/held.ts'
import {
  announceRequest,
  approvalsActor,
  expireApproval,
  markUsed,
  supersedeApproval,
  withdrawApproval,
} from '../../governance/approvals/moves.ts'
import { rejectionBy } from '../../governance/approvals/votes.ts'
import { isoTime, type ApprovalRecord, type NewApproval } from '../../governance/approvals/records.ts'
import type { Exceeded } from '../../governance/limits/run-quota.ts'
import { approvalsOver, storageOver } from '../../governance/limits/storage.ts'
import type { Judged, Question } from './question.ts'
import { limitExplanation } from './unrecorded.ts'

/**
 * Decides a call for which a rule requires an approval. Calls with the same person, session, tool and whole input share
 * an approval:
 *
 * - If the approval is pending, the call stays held.
 * - If the approval was given, it allows the call once and is then used up.
 * - If the approval was rejected, the call is denied.
 * - If the approval has expired or was withdrawn or used, the call is held again with a new approval.
 *
 * An approval allows a call only if its votes satisfy the strictest rule that matches now, and if the approvers saw
 * every label of the call. These conditions also apply to an approval that has let this same call through before.
 */
export function useHeldCall(question: Question, decided: Decided): Judged {
  const { ledger, op, session, labels } = question
  const hold = (again: HeldAgain | null = null): Judged => holdCall(question, decided, again)
  const holdAgain = (former: ApprovalRecord, because: string): Judged =>
    hold({ former, because, hasChanged: false })
  const isShown = (given: ApprovalRecord): boolean => {
    const shown = new Set(given.labels)
    return labels.every((label) => shown.has(label))
  }
  const through = earlierApproval(question)
  if (
    through !== null &&
    isShown(through) &&
    stateAtUse(question, decided, through, through.used_by) === 'usable'
  )
    return letThrough(decided, through)
  const approval = ledger.approvalOf(session, op.key.paramsHash)
  if (approval === undefined) return hold()
  const state = stateAtUse(question, decided, approval, null)
  if (state === 'rejected')
    return {
      ...decided,
      verdict: 'deny',
      explanation: `${decided.explanation} It stays denied: ${rejectionBy(approval.votes, 'it')}.`,
      approvalId: approval.id,
      expiresAt: null,
    }
  if (state === 'withdrawn' || state === 'used' || approval.status === 'expired') return hold()
  if (state === 'expired' && approval.status === 'pending')
    expireApproval(question, approval, { actor: approvalsActor, runId: session.run_id })
  if (state === 'expired') return holdAgain(approval, heldAgain.late)
  if (!isShown(approval)) return holdAgain(approval, heldAgain.labels)
  if (approval.status === 'pending')
    return { ...decided, approvalId: approval.id, expiresAt: isoTime(approval.expires_at) }
  if (state !== 'usable') return holdAgain(approval, heldAgain.votes)
  markUsed(question, approval, useOf(question))
  return letThrough(decided, approval)
}

/** Withdraws the approval of this call, if the approval is pending. */
export function withdrawHeld(question: Question): void {
  const { ledger, session, op } = question
  const approval = ledger.approvalOf(session, op.key.paramsHash)
  if (approval?.status === 'pending') withdrawApproval(question, approval)
}

/**
 * Returns the approval that has already let this same call through; null if there is none. First example: the client
 * lost the answer and asks again. Second example: the agent's hook asked first, and now the gateway asks about the same
 * call.
 */
function earlierApproval({ ledger, earlier }: Question): ApprovalRecord | null {
  if (earlier?.verdict !== 'allow' || earlier.approval_id === null) return null
  return ledger.approvals.get(earlier.approval_id) ?? null
}

function letThrough(decided: Decided, approval: ApprovalRecord): Judged {
  return {
    ...decided,
    verdict: 'allow',
    explanation: `${decided.explanation} Its approval \`${approval.id}\` lets this one call through.`,
    approvalId: approval.id,
    expiresAt: null,
  }
}

const useOf = ({ session, op }: Question): string =>
  `${session.id}/${op.key.toolUseId ?? `call ${session.decision_seq + 1}`}`

function holdCall(question: Question, decided: Decided, again: HeldAgain | null): Judged {
  const { tx, ledger, op, session, sideEffect, labels } = question
  const isMore = again?.former.status !== 'pending'
  const over = storageOver(tx, op.weight) ?? (isMore ? approvalsOver(tx) : null)
  if (over !== null) return { ...decided, ...noRoom(over) }
  tx.expects({ bytes: op.weight, approvals: isMore ? 1 : 0 })
  const record = pendingApproval(
    tx,
    {
      kind: 'agent_call',
      run_id: null,
      workflow_id: null,
      step_id: null,
      item_index: null,
      session_id: session.id,
      requested_by: op.key.userId,
      authors: [],
      params_hash: op.key.paramsHash,
      labels: [...labels],
      rule_name: decided.ruleName,
      decision_id: question.decisionId,
    },
    requirementNow(tx, decided),
    decided.expiresAfterSeconds ?? op.approvalSeconds,
    { again },
  )
  const approval: NewApproval = {
    record,
    sealed: op.seal(record.id),
    state: null,
    tool: op.call.tool,
    side_effect: sideEffect,
    destination: null,
    rule_id: decided.ruleId,
    risk: assessRisk([{ sideEffect, risk: riskOf[sideEffect], labels }]),
  }
  ledger.addApproval(approval)
  if (again !== null) supersedeApproval(question, again.former, record.id)
  announceRequest(tx, approval, { actor: op.actor, runId: session.run_id })
  return { ...decided, approvalId: record.id, expiresAt: record.expires_at }
}

const noRoom = (over: Exceeded) =>
  ({
    verdict: 'deny',
    reason: over.limit === 'storage_mb' ? 'storage limit' : 'approvals limit',
    explanation: limitExplanation(over),
    approvalId: null,
    expiresAt: null,
  }) as const

/** An agent's tool declares no risk, so the side effect of a call decides the call's risk. */
const riskOf = { read: 'medium', write: 'medium', egress: 'high' } as const
