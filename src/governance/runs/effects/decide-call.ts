import { refused, type Call, type Decided } from '../../../policy/decide.ts'
import { judgeCall } from '../../../policy/judge-call.ts'
import { addressNotConfirmed } from '../../access/address-proof.ts'
import { refusalOfRole } from '../../access/role-refusal.ts'
import type { LockedRun } from './run-call.ts'
import type { StepOp } from './step-op.ts'

/** Decides the call by the roles of the requester and of the step's authors, and by the rules. Writes nothing. */
export function decideCall({ tx, ledger, run }: LockedRun, op: StepOp): Decided {
  const role = ledger.roles.get(run.requested_by)
  if (role === undefined)
    return refused('requester has left', 'the person who started this run is no longer a member')
  const refusal = refusalOfRole('workflows', role)
  if (refusal !== null) return refusal
  if (op.mustBeConfirmed && !ledger.confirmed.has(run.requested_by))
    return refused(
      addressNotConfirmed,
      'The person who started this run has not confirmed their mail address.',
    )
  return judgeCall(tx.policy, callOf(op), role, ledger.step(run.id, op.key.stepId)?.author_roles)
}

/** Returns the call as the rules see it. */
export function callOf(op: StepOp): Call {
  return {
    source: 'workflows',
    tool: op.tool.name,
    sideEffect: op.tool.sideEffect,
    params: op.params,
    labels: op.labels,
    paramLabels: op.paramLabels,
  }
}
