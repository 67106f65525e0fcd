import { getTool } from '../../../tools/index.ts'
import { planOf } from '../../../contract/definition-plan.ts'
import type { WorkflowDefinition } from '../../../contract/definition.ts'
import type { InputLabels } from '../../../db/schema/runs.ts'
import { analyzePlan, type PlanAnalysis } from '../../../policy/plan.ts'
import type { Builtins } from '../../../policy/builtins.ts'
import type { JsonObject, Role } from '../../../policy/types.ts'
import type { LoadedPolicy } from '../../audit/policy-cache.ts'
import { toolDestination, type Installation } from '../../tools/connections.ts'
import { gateOf, type RunGate } from './gate.ts'

/** A requested run. For a preview, some details are unknown. */
export interface WantedRun {
  readonly definition: WorkflowDefinition
  readonly inputs: JsonObject
  /**
   * True if all inputs are known. An input without a value is then absent. False if a preview does not know all inputs.
   * An input without a value is then unknown.
   */
  readonly areInputsComplete: boolean
  readonly labels: InputLabels
  readonly requester: { readonly userId: string; readonly role: Role; readonly email: string }
  /** The roles of the people who wrote each step. The key is the step's id. */
  readonly authorRoles?: ReadonlyMap<string, readonly Role[]>
  /** The dates of the run. Is undefined if the dates are unknown, for example in a preview. */
  readonly builtins?: Builtins | undefined
}

export interface PlannedRun {
  readonly analysis: PlanAnalysis
  readonly gate: RunGate
}

/**
 * Returns the policy's answer about a whole run before the run starts. No other function computes this answer. A run is
 * accepted or refused by this answer, and a preview shows this answer.
 */
export function planRun(
  policy: Pick<LoadedPolicy, 'compiled' | 'toolAccess' | 'settings' | 'connections'>,
  installation: Pick<Installation, 'smtpUrl'>,
  wanted: WantedRun,
): PlannedRun {
  const { definition, requester } = wanted
  const inputLabels = Object.entries(wanted.labels).map(
    ([name, sources]) => [name, sources.map(({ label }) => label)] as const,
  )
  const plan = planOf(
    definition,
    { get: getTool },
    (tool) => toolDestination(installation, policy.connections, tool, requester.userId),
    {
      inputs: wanted.inputs,
      areInputsComplete: wanted.areInputsComplete,
      inputLabels: new Map(inputLabels),
      builtins: wanted.builtins,
      requesterEmail: requester.email,
    },
  )
  const analysis = analyzePlan(policy.compiled, plan, (call, budget) =>
    policy.toolAccess.refusal(
      { ...call, role: requester.role, authorRoles: wanted.authorRoles?.get(call.stepId) },
      budget,
    ),
  )
  return { analysis, gate: gateOf(policy.settings, definition, analysis) }
}
