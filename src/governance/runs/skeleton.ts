import { getTool } from '../../catalog/index.ts'
import type { SkeletonStep } from '../../contract/messages.ts'
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
