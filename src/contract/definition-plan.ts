import type { Plan, PlanStep } from '../policy/plan-types.ts'
import type { JsonObject } from '../policy/types.ts'
import { serviceOf, type ToolCatalog, type ToolDeclaration } from '../tools/kit/tool.ts'
import { sourcesOf } from '../policy/plan-cases.ts'
import { sideEffectOf } from '../policy/tool-facts.ts'
import type { WorkflowDefinition } from './definition.ts'
import { dependencies } from './definition-graph.ts'
import { withFilesAsText } from './files-as-text.ts'

/**
 * The output of these tools can have labels that the tool's declaration does not name. For example, `memory_get`
 * returns a stored value with the labels of this value.
 */
const bringingOwnLabels: ReadonlySet<string> = new Set(['memory_get'])

/** Where a call goes: its host, and whether this is the service's own. */
interface Destination {
  readonly destination: string
  readonly ownHost: boolean
}

/**
 * Converts a checked definition for the policy core. A tool that is no longer in the catalogue counts as egress.
 * `destinationOf` says where the requester's calls of a tool go; null if they stay here, or if there is no connection.
 */
export function planOf(
  definition: WorkflowDefinition,
  catalog: ToolCatalog,
  destinationOf: (tool: ToolDeclaration) => Destination | null,
  known: { inputs: JsonObject; areInputsComplete: boolean } & Pick<
    Plan,
    'builtins' | 'requesterEmail' | 'inputLabels'
  >,
): Plan {
  const graph = dependencies(definition)
  const takesResults = (params: JsonObject, forEach: PlanStep['forEach']): boolean =>
    sourcesOf({ params, forEach }, { ...known, areInputsComplete: true }).size > 0
  const steps = definition.steps.map((step): PlanStep => {
    const tool = catalog.get(step.tool)
    const to = tool === undefined ? null : destinationOf(tool)
    const params = tool === undefined ? step.params : withFilesAsText(tool, step.params)
    return {
      id: step.id,
      tool: step.tool,
      sideEffect:
        tool === undefined ? 'egress' : sideEffectOf(tool, params, to, takesResults(params, step.for_each)),
      destination: to?.destination ?? (tool !== undefined && serviceOf(tool) === null ? null : undefined),
      outputLabels: tool?.outputLabels ?? [],
      bringsOwnLabels: tool === undefined || bringingOwnLabels.has(step.tool),
      params,
      people: tool?.people,
      dependsOn: graph.get(step.id) ?? [],
      when: step.when,
      forEach: step.for_each,
      onError: step.on_error,
    }
  })
  return { steps, ...known }
}
