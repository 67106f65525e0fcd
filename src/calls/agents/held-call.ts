import { agentInputBinding } from '../../governance/sealing/bindings.ts'
import type { Decided } from '../../policy/decide.ts'
import { assessRisk } from '../../policy/risk.ts'
import {
  pendingApproval,
  requirementNow,
  type HeldAgain,
  isoTime,
  type ApprovalRecord,
  type NewApproval,
} from '../../governance/approvals/records.ts'
import {
  announceRequest,
  approvalsActor,
  expireApproval,
  markUsed,
  supersedeApproval,
  withdrawApproval,
} from '../../governance/approvals/moves.ts'
import { rejectionBy } from '../../governance/approvals/votes.ts'
import type { Exceeded } from '../../governance/limits/run-quota.ts'
import { approvalsOver, storageOver } from '../../governance/limits/storage.ts'
import { heldAgain, standingNow, stepOf, tableOfAgent } from '../approval-table.ts'
import { type DecidedCall, type LockedCall, limitExplanation } from './call.ts'

/**
 * A call that the rules deny stays denied. Calls with the same person, session, tool and whole input share an
 * approval. An approval that has let this same call through before does it again, under the same conditions.
 */
export function useHeldCall(locked: LockedCall, decided: Decided): DecidedCall {
  const { ledger, op, session, labels } = locked
  if (decided.verdict === 'deny') return asDecided(decided)
  if (decided.verdict === 'require_approval') {
    const through = earlierApproval(locked)
    const compared = { paramsHash: through?.params_hash ?? null, labels }
    if (through !== null && standingNow(locked, decided, through, through.used_by, compared) === 'usable')
      return letThrough(decided, through)
  }
  const { paramsHash } = op.key
  const approval = ledger.approvalOf(session, paramsHash)
  if (approval === undefined)
    return decided.verdict === 'require_approval' ? holdCall(locked, decided, null) : asDecided(decided)
  const step = stepOf(
    tableOfAgent,
    standingNow(locked, decided, approval, null, { paramsHash, labels }),
    decided,
  )
  if ('notes' in step) expireApproval(locked, approval, { actor: approvalsActor, runId: session.run_id })
  if (step.does === 'go' && approval.status === 'pending') withdrawApproval(locked, approval)
  if (step.does === 'go') return asDecided(decided)
  if (step.does === 'hold') return holdCall(locked, decided, null)
  if (step.does === 'hold_again')
    return holdCall(locked, decided, {
      former: approval,
      because: heldAgain[step.because],
      hasChanged: false,
    })
  if (step.does === 'wait')
    return { ...decided, approvalId: approval.id, expiresAt: isoTime(approval.expires_at) }
  if (step.does === 'end')
    return {
      ...decided,
      verdict: 'deny',
      explanation: `${decided.explanation} It stays denied: ${rejectionBy(approval.votes, 'it')}.`,
      approvalId: approval.id,
      expiresAt: null,
    }
  markUsed(locked, approval, useOf(locked))
  return letThrough(decided, approval)
}

const asDecided = (decided: Decided): DecidedCall => ({ ...decided, approvalId: null, expiresAt: null })

/** The client lost the answer and asks again, or the gateway asks about a call after the hook. */
function earlierApproval({ ledger, earlier }: LockedCall): ApprovalRecord | null {
  if (earlier?.verdict !== 'allow' || earlier.approval_id === null) return null
  return ledger.approvals.get(earlier.approval_id) ?? null
}

function letThrough(decided: Decided, approval: ApprovalRecord): DecidedCall {
  return {
    ...decided,
    verdict: 'allow',
    explanation: `${decided.explanation} Its approval \`${approval.id}\` lets this one call through.`,
    approvalId: approval.id,
    expiresAt: null,
  }
}

const useOf = ({ session, op }: LockedCall): string =>
  `${session.id}/${op.key.toolUseId ?? `call ${session.decision_seq + 1}`}`

function holdCall(locked: LockedCall, decided: Decided, again: HeldAgain | null): DecidedCall {
  const { tx, ledger, op, session, sideEffect, labels } = locked
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
      authors: op.keyMadeBy === null ? [] : [op.keyMadeBy],
      params_hash: op.key.paramsHash,
      labels: [...labels],
      rule_name: decided.ruleName,
      decision_id: locked.decisionId,
    },
    requirementNow(tx, decided),
    { ...decided, expiresAfterSeconds: decided.expiresAfterSeconds ?? op.approvalSeconds },
    { again },
  )
  const approval: NewApproval = {
    record,
    sealed: op.seal(agentInputBinding(record.id), op.input),
    state: null,
    tool: op.call.tool,
    side_effect: sideEffect,
    destination: null,
    rule_id: decided.ruleId,
    risk: assessRisk([{ sideEffect, risk: riskOf[sideEffect], labels }]),
  }
  ledger.addApproval(approval)
  if (again !== null) supersedeApproval(locked, again.former, record.id)
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

/** An agent's tool declares no risk. */
const riskOf = { read: 'medium', write: 'medium', egress: 'high' } as const
