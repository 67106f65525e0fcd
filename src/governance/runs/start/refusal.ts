import { quote } from '../../../policy/text.ts'
import type { PlanAnalysis } from '../../../policy/plan.ts'
import type { ChainTx } from '../../audit/chain-tx.ts'
import type { LoggedFields } from '../../audit/entry.ts'
import { DomainError } from '../../errors.ts'
import { actorOf, type Caller } from '../../access/identity.ts'
import { addressNotConfirmed, confirmFirst } from '../../access/address-proof.ts'
import { changeSentence, type VersionChange } from '../values/version-change.ts'
import type { PlannedRun } from './plan-run.ts'

/* Each refusal with `run_denied` leaves an audit entry but no run. */

interface Refused {
  readonly caller: Caller
  readonly workflowId: string
  readonly inputHash: string
}

export function refuseUnconfirmed(tx: ChainTx, request: Refused): DomainError {
  tx.append({
    eventType: 'workflow.refused',
    action: 'execute',
    status: 'denied',
    actor: actorOf(request.caller),
    workflowId: request.workflowId,
    metadata: { reason: addressNotConfirmed, input_hash: request.inputHash },
    logged: { error_code: 'address_not_confirmed' },
  })
  tx.publish('run.denied', {
    run_id: null,
    workflow_id: request.workflowId,
    error_code: 'address_not_confirmed',
  })
  return new DomainError('run_denied', `nothing was started: ${confirmFirst}`, [
    { path: 'email_verified', message: confirmFirst },
  ])
}

export function refusePlan(
  tx: ChainTx,
  request: Refused,
  { analysis, gate }: PlannedRun,
  change: VersionChange | null,
): DomainError {
  const { stepId, ruleName, denied, remedy } = denialOf(analysis)
  tx.append({
    eventType: 'workflow.refused',
    action: 'execute',
    status: 'denied',
    actor: actorOf(request.caller),
    workflowId: request.workflowId,
    metadata: {
      step_id: stepId,
      rule_name: ruleName,
      input_hash: request.inputHash,
      risk: gate.risk.level,
      risk_reasons: [...gate.risk.reasons],
    },
    logged: denialCause(analysis),
  })
  const { workflowId: workflow_id } = request
  tx.publish('run.denied', { run_id: null, workflow_id, step_id: stepId, rule_name: ruleName })
  return new DomainError('run_denied', denialMessage(analysis), [
    { path: `steps.${stepId}`, message: `${denied}${remedy}` },
    ...(change === null ? [] : [{ path: 'version', message: changeSentence(change) }]),
  ])
}

export function denialMessage(analysis: PlanAnalysis): string {
  const { stepId, denied, remedy } = denialOf(analysis)
  return `step \`${stepId}\` would be ${denied}: nothing was started${remedy}`
}

/** The fields with which the log and webhooks report the refusal. */
export function denialCause(analysis: PlanAnalysis): LoggedFields {
  const { stepId, ruleId } = denialOf(analysis)
  return { step_id: stepId, error_code: 'run_denied', ...(ruleId === null ? {} : { rule_id: ruleId }) }
}

/** `denied`: for example "denied by" and the rule's name. `remedy` is empty if there is nothing to add. */
export function denialOf({ deniedBy: by, steps }: PlanAnalysis) {
  const ruleName = by?.ruleName ?? ''
  const denied = by?.isBlocked === true ? `denied: ${ruleName}` : `denied by ${quote(ruleName)}`
  const policy = by?.isBlocked === true ? steps.find((step) => step.stepId === by.stepId)?.blocked : null
  const why = by?.lacksApprovals === true ? approvalsOff : asClause(policy?.explanation ?? '')
  const ruleId = by?.ruleId ?? null
  return { stepId: by?.stepId ?? '', ruleName, ruleId, denied, remedy: why === '' ? '' : `; ${why}` }
}

const asClause = (sentence: string): string =>
  sentence.replace(/^[AT]/, (letter) => letter.toLowerCase()).replace(/\.$/, '')

const approvalsOff = 'approvals are off: set `approvals_enabled`'
