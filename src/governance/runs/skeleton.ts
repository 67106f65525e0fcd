import { getTool } from '../../catalog/index.ts'
import type { SkeletonStep } from '../../contract/messages.ts'
import type { Builtins } from '../../policy/builtins.ts'
import type { Plan } from '../../policy/plan.ts'
import type { JsonObject } from '../../policy/types.ts'
import type { FrozenVersion } from './version-cache.ts'

const defaultTimeoutSeconds = 60

/** What the workflow gets of a version: ids, tools, dependencies and time limits, never a parameter. */
export function skeletonOf(version: FrozenVersion): SkeletonStep[] {
  return version.definition.steps.map((step) => ({
    id: step.id,
    tool: step.tool,
    dependsOn: version.dependsOn.get(step.id) ?? [],
    forEach: step.for_each !== undefined,
    continueOnError: step.on_error === 'continue',
    timeoutSeconds: step.timeout_seconds ?? getTool(step.tool)?.timeoutSeconds ?? defaultTimeoutSeconds,
  }))
}

/** What plan analysis gets of a version about to run with these inputs. */
export function planOf(version: FrozenVersion, inputs: JsonObject, builtins: Builtins): Plan {
  return {
    inputs,
    areInputsComplete: true,
    builtins,
    steps: version.definition.steps.map((step) => {
      const tool = getTool(step.tool)
      return {
        id: step.id,
        tool: step.tool,
        sideEffect: tool?.sideEffect ?? 'write',
        outputLabels: tool?.outputLabels ?? [],
        bringsOwnLabels: step.tool === 'memory_get',
        params: step.params,
        dependsOn: version.dependsOn.get(step.id) ?? [],
        when: step.when,
        forEach: step.for_each,
        onError: step.on_error,
      }
    }),
  }
}
