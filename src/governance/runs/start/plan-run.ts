import { getTool } from '../../../tools/index.ts'
import { skipsWithOthers, type WorkflowDefinition } from '../../../contract/definition.ts'
import type { InputLabels } from '../../../db/schema/runs.ts'
import { analyzePlan, type PlanAnalysis } from '../../../policy/plan.ts'
import type { Builtins } from '../../../policy/builtins.ts'
import type { JsonObject, Role } from '../../../policy/types.ts'
import type { LoadedPolicy } from '../../audit/policy-cache.ts'
import { toolDestination, type Installation } from '../../tools/connections.ts'
import { gateOf, type RunGate } from './gate.ts'
import type { Plan, PlanStep } from '../../../policy/plan-types.ts'
import type { PlanScope } from '../../../steps/kind.ts'
import { kindOf } from '../../../steps/index.ts'
import type { ToolCatalog } from '../../../tools/kit/tool.ts'
import { sourcesOf } from '../../../policy/plan-cases.ts'
import { dependencies } from '../../../contract/definition-graph.ts'

export interface WantedRun {
  readonly definition: WorkflowDefinition
  readonly inputs: JsonObject
  /** True: an input without a value is absent. False, as in some previews: its value is not known. */
  readonly areInputsComplete: boolean
  readonly labels: InputLabels
  readonly requester: { readonly userId: string; readonly role: Role; readonly email: string }
  /** By the id of the step. */
  readonly authorRoles?: ReadonlyMap<string, readonly Role[]>
  /** Outputs that a preview assumes, by the id of the step. */
  readonly mocks?: JsonObject | undefined
  /** Is undefined if the dates are unknown, for example in a preview. */
  readonly builtins?: Builtins | undefined
}

export interface PlannedRun {
  readonly analysis: PlanAnalysis
  readonly gate: RunGate
}

/** No other function computes this answer: runs are accepted or refused by it, and previews show it. */
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
      mocks: wanted.mocks === undefined ? undefined : new Map(Object.entries(wanted.mocks)),
      requesterEmail: requester.email,
    },
    policy.settings.trust_answers,
  )
  const toolAccess = policy.toolAccess.of(requester.userId)
  const analysis = analyzePlan(policy.compiled, plan, (call, budget) =>
    toolAccess.refusal(
      { ...call, role: requester.role, authorRoles: wanted.authorRoles?.get(call.stepId) },
      budget,
    ),
  )
  return { analysis, gate: gateOf(policy.settings, definition, analysis) }
}

export function planOf(
  definition: WorkflowDefinition,
  catalog: ToolCatalog,
  destinationOf: PlanScope['destinationOf'],
  known: { inputs: JsonObject; areInputsComplete: boolean } & Pick<
    Plan,
    'builtins' | 'requesterEmail' | 'inputLabels' | 'mocks'
  >,
  trustsAnswers: boolean,
): Plan {
  const graph = dependencies(definition)
  const steps = definition.steps.map((step): PlanStep => {
    const { id, when, for_each: forEach, on_error: onError } = step
    const takesResults = (params: JsonObject): boolean =>
      sourcesOf({ params, forEach }, { ...known, areInputsComplete: true }).size > 0
    return {
      id,
      ...kindOf(step).plan(step, { catalog, destinationOf, takesResults, trustsAnswers }),
      dependsOn: graph.get(id) ?? [],
      when,
      forEach,
      onError,
      skipsWithOthers: skipsWithOthers(definition, step),
    }
  })
  return { steps, ...known }
}
