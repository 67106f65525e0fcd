import type { Plan, PlanStep } from '../policy/plan.ts'
import type { JsonObject } from '../policy/types.ts'
import type { ToolCatalog } from './definition-check.ts'
import type { WorkflowDefinition } from './definition.ts'
import { dependencies } from './definition-graph.ts'

/** What these return can carry labels that no declaration names: a remembered value keeps its own. */
const bringingOwnLabels: ReadonlySet<string> = new Set(['memory_get'])

/** A checked definition as the policy core analyses it. A tool the catalogue has lost counts as egress. */
export function planOf(
  definition: WorkflowDefinition,
  catalog: ToolCatalog,
  known: { inputs: JsonObject; areInputsComplete: boolean } & Pick<
    Plan,
    'uploadedFiles' | 'builtins' | 'requesterEmail' | 'inputLabels'
  >,
): Plan {
  const graph = dependencies(definition)
  const steps = definition.steps.map((step): PlanStep => {
    const tool = catalog.get(step.tool)
    return {
      id: step.id,
      tool: step.tool,
      sideEffect: tool?.sideEffect ?? 'egress',
      outputLabels: tool?.outputLabels ?? [],
      bringsOwnLabels: tool === undefined || bringingOwnLabels.has(step.tool),
      params: step.params,
      people: tool?.people,
      dependsOn: graph.get(step.id) ?? [],
      when: step.when,
      forEach: step.for_each,
      onError: step.on_error,
    }
  })
  return { steps, ...known }
}
