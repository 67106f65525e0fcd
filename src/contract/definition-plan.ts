import type { Plan, PlanStep } from '../policy/plan-types.ts'
import type { JsonObject } from '../policy/types.ts'
import type { PlanScope } from '../steps/kind.ts'
import { kindOf } from '../steps/index.ts'
import type { ToolCatalog } from '../tools/kit/tool.ts'
import { sourcesOf } from '../policy/plan-cases.ts'
import type { WorkflowDefinition } from './definition.ts'
import { dependencies } from './definition-graph.ts'

export function planOf(
  definition: WorkflowDefinition,
  catalog: ToolCatalog,
  destinationOf: PlanScope['destinationOf'],
  known: { inputs: JsonObject; areInputsComplete: boolean } & Pick<
    Plan,
    'builtins' | 'requesterEmail' | 'inputLabels'
  >,
): Plan {
  const graph = dependencies(definition)
  const steps = definition.steps.map((step): PlanStep => {
    const { id, when, for_each: forEach, on_error: onError } = step
    const takesResults = (params: JsonObject): boolean =>
      sourcesOf({ params, forEach }, { ...known, areInputsComplete: true }).size > 0
    return {
      id,
      ...kindOf(step).plan(step, { catalog, destinationOf, takesResults }),
      dependsOn: graph.get(id) ?? [],
      when,
      forEach,
      onError,
    }
  })
  return { steps, ...known }
}
