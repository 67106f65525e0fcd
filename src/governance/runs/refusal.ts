import type { PlanAnalysis } from '../../policy/plan.ts'
import type { ChainTx } from '../chain-tx.ts'
import { DomainError } from '../errors.ts'
import { actorOf, type Caller } from '../identity.ts'
import { addressNotConfirmed, confirmFirst } from '../people/address-proof.ts'

/* Runs that are refused up front with `run_denied`. */

interface Refused {
  readonly caller: Caller
  readonly workflowId: string
  readonly inputHash: string
}

/** Who may be anybody starts nothing: an audit entry stays and no run. */
export function refuseUnconfirmed(tx: ChainTx, request: Refused): DomainError {
  tx.append({
    eventType: 'workflow.refused',
    action: 'execute',
    status: 'denied',
    actor: actorOf(request.caller),
    workflowId: request.workflowId,
    metadata: { reason: addressNotConfirmed, input_hash: request.inputHash },
  })
  return new DomainError('run_denied', `nothing was started: ${confirmFirst}`, [
    { path: 'email_verified', message: confirmFirst },
  ])
}

/** Why the plan is denied for certain: an audit entry stays and no run. */
export function refusePlan(tx: ChainTx, request: Refused, analysis: PlanAnalysis): DomainError {
  const by = analysis.deniedBy
  const stepId = by?.stepId ?? ''
  const ruleName = by?.ruleName ?? ''
  tx.append({
    eventType: 'workflow.refused',
    action: 'execute',
    status: 'denied',
    actor: actorOf(request.caller),
    workflowId: request.workflowId,
    metadata: { step_id: stepId, rule_name: ruleName, input_hash: request.inputHash },
  })
  const denied = by?.isBlocked === true ? `denied: ${ruleName}` : `denied by \`${ruleName}\``
  const why = by?.lacksApprovals === true ? `; ${approvalsOff}` : ''
  return new DomainError('run_denied', `step \`${stepId}\` would be ${denied}: nothing was started${why}`, [
    { path: `steps.${stepId}`, message: `${denied}${why}` },
  ])
}

const approvalsOff = 'approvals are off: set `approvals_enabled`'
