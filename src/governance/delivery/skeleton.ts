import { getTool } from '../../catalog/index.ts'
import type { WorkflowStep } from '../../contract/definition.ts'
import type { SkeletonStep } from '../../contract/messages.ts'
import type { FrozenVersion } from '../runs/values/version-cache.ts'

const defaultTimeoutSeconds = 60
/** A call with a longer time limit is an ordinary activity. */
const mostQuickSeconds = 10

/**
 * The most items with quick calls that a run works on at the same time. A quick call takes milliseconds, so more items
 * at once save no time. While another organization is busy, only two quick calls of an organization work at once. A quick
 * call that waits for a tenth of a second becomes an ordinary activity, which costs more. The number is a part of the
 * run's input. So runs in progress replay, even if a later version changes the number.
 */
const quickItemsAtOnce = 10

/** Temporal takes a summary of 400 bytes; the interpreter adds the item. */
const mostSummaryBytes = 256

/** The parts of a version that the workflow gets: ids, summaries, tools, dependencies and time limits, never a parameter. */
export function skeletonOf(version: FrozenVersion): SkeletonStep[] {
  return version.definition.steps.map((step) => {
    return {
      id: step.id,
      tool: step.tool,
      dependsOn: version.dependsOn.get(step.id) ?? [],
      forEach: step.for_each !== undefined,
      continueOnError: step.on_error === 'continue',
      timeoutSeconds: secondsOf(step),
      ...(isQuickStep(step) ? { quick: true as const } : {}),
      ...(isQuickStep(step) && step.for_each !== undefined ? { itemsAtOnce: quickItemsAtOnce } : {}),
      ...(step.summary ? { summary: cutToBytes(step.summary, mostSummaryBytes) } : {}),
    }
  })
}

const secondsOf = (step: WorkflowStep): number =>
  step.timeout_seconds ?? getTool(step.tool)?.timeoutSeconds ?? defaultTimeoutSeconds

/** Whether a call may run as a local activity: a worker's death repeats it, and a workflow task waits for its end. */
export function isQuickStep(step: WorkflowStep): boolean {
  const repeat = getTool(step.tool)?.repeat
  const mayRepeat = repeat === 'free' || repeat === 'transactional' || repeat === 'keyed'
  return mayRepeat && secondsOf(step) <= mostQuickSeconds
}

/** The beginning of a text that has at most this many bytes in UTF-8, with `…` if something is missing. */
export function cutToBytes(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text
  let left = bytes - Buffer.byteLength('…')
  let kept = ''
  for (const character of text) {
    left -= Buffer.byteLength(character)
    if (left < 0) break
    kept += character
  }
  return `${kept}…`
}
