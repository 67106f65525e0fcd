import { refused, type Call, type Decided } from '../../../policy/decide.ts'
import { judgeCall } from '../../../policy/judge-call.ts'
import { sideEffectOf } from '../../../policy/tool-facts.ts'
import type { CallDestination } from '../../audit/connected.ts'
import { addressNotConfirmed } from '../../access/address-proof.ts'
import { refusalOfRole } from '../../access/recheck.ts'
import { toolDestination } from '../../tools/connections.ts'
import type { LockedRun } from './run-call.ts'
import type { StepOp } from './step-op.ts'

/** Decides the call by the roles of the requester and of the step's authors, and by the rules. Writes nothing. */
export function decideCall(locked: LockedRun, op: StepOp): Decided {
  const { tx, ledger, run } = locked
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
  return judgeCall(
    tx.policy,
    callOf(op, whereTo(locked, op)),
    role,
    ledger.step(run.id, op.key.stepId)?.author_roles,
  )
}

/** Returns where the call goes now, with the requester's connection. */
export const whereTo = ({ tx, run }: LockedRun, op: StepOp): CallDestination | null =>
  toolDestination(op.installation, tx.policy.connections, op.tool, run.requested_by)

/** Returns the call as the rules see it. */
export function callOf(op: StepOp, to: CallDestination | null): Call {
  return {
    source: 'workflows',
    tool: op.tool.name,
    sideEffect: sideEffectOf(op.tool, op.params, to, op.paramLabels.size > 0),
    params: op.params,
    destination: to?.destination ?? null,
    labels: op.labels,
    paramLabels: op.paramLabels,
  }
}
