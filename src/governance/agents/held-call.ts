import type { Decided } from '../../policy/decide.ts'
import { assessRisk } from '../../policy/risk.ts'
import { pendingApproval, suffices } from '../approvals/held.ts'
import { rejectionBy } from '../approvals/votes.ts'
import type { ChainTx } from '../chain-tx.ts'
import type { ApprovalRecord } from '../records.ts'
import type { Exceeded } from '../quotas/run-quota.ts'
import { approvalsOver, storageOver } from '../quotas/storage.ts'
import type { AgentLedger, SessionRecord } from './ledger.ts'
import type { Judged, Question } from './question.ts'
import { roomWords } from './unrecorded.ts'

/**
 * A call that a rule holds (contract section 7). Its identity is person, session, tool and whole input. Asked about while
 * its approval is pending it is held by that one; once approved it is allowed once, which uses the approval up; rejected
 * it is denied; after expiry, withdrawal or use it is held anew. At use the votes must satisfy the strictest rule that
 * matches now and the session may hold no label that the approvers were not shown; that holds for an approval, too, which
 * has let this very call through before.
 */
export function useHeldCall(tx: ChainTx, ledger: AgentLedger, question: Question, decided: Decided): Judged {
  const { op, session, labels } = question
  const hold = (former?: ApprovalRecord): Judged => holdCall(tx, ledger, question, decided, former)
  const isShown = (given: ApprovalRecord): boolean => {
    const shown = new Set(given.labels)
    return labels.every((label) => shown.has(label))
  }
  const through = alreadyThrough(ledger, question)
  if (through !== null && isShown(through) && suffices(tx, decided, through, ledger.roles))
    return letThrough(decided, through)
  const approval = ledger.approvalOf(session, op.key.paramsHash)
  if (approval === undefined) return hold()
  if (approval.status === 'rejected')
    return {
      ...decided,
      verdict: 'deny',
      explanation: `${decided.explanation} It stays denied: ${rejectionBy(approval.votes, 'it')}.`,
      approvalId: approval.id,
      expiresAt: null,
    }
  if (approval.status === 'cancelled' || approval.status === 'expired' || approval.used_by !== null)
    return hold()
  if (approval.expires_at !== null && new Date(approval.expires_at) <= tx.now) {
    if (approval.status === 'pending') expire(tx, ledger, session, approval)
    return hold(approval)
  }
  if (!isShown(approval)) return hold(approval)
  if (approval.status === 'pending')
    return { ...decided, approvalId: approval.id, expiresAt: isoTime(approval.expires_at) }
  if (!suffices(tx, decided, approval, ledger.roles)) return hold(approval)
  approval.used_at = tx.now.toISOString()
  approval.used_by = useOf(question)
  ledger.dirtyApprovals.add(approval)
  return letThrough(decided, approval)
}

/** As read from JSON that the database wrote, a time has its offset. */
const isoTime = (time: string | null): string | null => (time === null ? null : new Date(time).toISOString())

/** Takes a waiting approval of this call out of the inbox. */
export function withdrawHeld(tx: ChainTx, ledger: AgentLedger, { session, op }: Question): void {
  const approval = ledger.approvalOf(session, op.key.paramsHash)
  if (approval?.status === 'pending') close(tx, ledger, approval, 'cancelled')
}

/** The approval that has let this very call through already: its answer was lost, or the hook was asked before. */
function alreadyThrough(ledger: AgentLedger, { earlier }: Question): ApprovalRecord | null {
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

function holdCall(
  tx: ChainTx,
  ledger: AgentLedger,
  { op, session, sideEffect, labels }: Question,
  decided: Decided,
  former: ApprovalRecord | undefined,
): Judged {
  const isMore = former?.status !== 'pending'
  const over = storageOver(tx, op.weight) ?? (isMore ? approvalsOver(tx) : null)
  if (over !== null) return { ...decided, ...noRoom(over) }
  tx.expects({ bytes: op.weight, approvals: isMore ? 1 : 0 })
  const record = pendingApproval(
    tx,
    decided,
    {
      kind: 'agent_call',
      run_id: null,
      step_id: null,
      item_index: null,
      session_id: session.id,
      requested_by: op.key.userId,
      params_hash: op.key.paramsHash,
      labels: [...labels],
    },
    op.approvalSeconds,
  )
  const { id } = record
  ledger.addApproval({
    record,
    sealed: op.seal(id),
    workflow_id: null,
    tool: op.call.tool,
    side_effect: sideEffect,
    rule_id: decided.ruleId,
    risk: assessRisk([{ sideEffect, risk: riskOf[sideEffect], labels }]),
  })
  if (former !== undefined) {
    if (former.status === 'pending') close(tx, ledger, former, 'cancelled')
    former.superseded_by = id
    ledger.dirtyApprovals.add(former)
  }
  tx.append({
    eventType: 'approval.requested',
    action: op.call.tool,
    status: 'pending',
    actor: op.actor,
    runId: session.run_id,
    metadata: { approval_id: id, session_id: session.id, rule_name: decided.ruleName },
  })
  return { ...decided, approvalId: id, expiresAt: record.expires_at }
}

const noRoom = (over: Exceeded) =>
  ({
    verdict: 'deny',
    reason: over.limit === 'storage_mb' ? 'storage limit' : 'approvals limit',
    explanation: roomWords(over),
    approvalId: null,
    expiresAt: null,
  }) as const

/** As a workflow's tools are scored: sending is high, changing and reading company data medium. */
const riskOf = { read: 'medium', write: 'medium', egress: 'high' } as const

function expire(tx: ChainTx, ledger: AgentLedger, session: SessionRecord, approval: ApprovalRecord): void {
  close(tx, ledger, approval, 'expired')
  tx.append({
    eventType: 'approval.expired',
    action: 'expire',
    status: 'expired',
    actor: { type: 'system', id: 'approvals' },
    runId: session.run_id,
    metadata: { approval_id: approval.id },
  })
}

function close(
  tx: ChainTx,
  ledger: AgentLedger,
  approval: ApprovalRecord,
  status: 'cancelled' | 'expired',
): void {
  approval.status = status
  approval.decided_at = tx.now.toISOString()
  ledger.dirtyApprovals.add(approval)
  tx.touched.add(approval.id)
}
