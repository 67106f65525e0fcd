import { getTool } from '../../tools/index.ts'
import { serviceOf } from '../../tools/kit/tool.ts'
import type { WorkflowStep } from '../../contract/definition.ts'
import type { SkeletonStep } from '../../contract/messages.ts'
import type { FrozenVersion } from '../runs/values/version-cache.ts'

const defaultTimeoutSeconds = 60
/**
 * A call is quick only if its time limit is at most this many seconds. Calls that are not quick are ordinary
 * activities.
 */
const mostQuickSeconds = 10

/**
 * If the calls of a step are short (`isShort`), a run works on at most this many items of the step at the same time. A
 * short call takes milliseconds, so a larger number would save no time. But it would have a cost, because each call
 * that waits takes an activity in Temporal. A worker that also serves other organizations runs only two such calls of
 * one organization at once (call-places.ts).
 *
 * The number is stored in the run's input. So a run in progress replays with the same number, even if a later version
 * of Countersign has another number.
 */
const shortItemsAtOnce = 10

/**
 * A step's summary is cut to this many bytes. The interpreter adds the item's index to the summary, and Temporal
 * accepts at most 400 bytes.
 */
const mostSummaryBytes = 256

/**
 * Returns what the Temporal workflow gets of a version: ids, summaries, tools, dependencies and time limits, but never
 * a parameter.
 */
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
      ...(step.for_each !== undefined && isShort(step) ? { itemsAtOnce: shortItemsAtOnce } : {}),
      ...(step.summary ? { summary: cutToBytes(step.summary, mostSummaryBytes) } : {}),
    }
  })
}

const secondsOf = (step: WorkflowStep): number =>
  step.timeout_seconds ?? getTool(step.tool)?.timeoutSeconds ?? defaultTimeoutSeconds

/**
 * Returns whether the step's call may run as a local activity. A local activity runs again if its worker dies, so the
 * tool must allow repetition. A workflow task waits for the end of the call, so the call must be short.
 */
export function isQuickStep(step: WorkflowStep): boolean {
  const repeat = getTool(step.tool)?.repeat
  const mayRepeat = repeat === 'free' || repeat === 'transactional' || repeat === 'keyed'
  return mayRepeat && secondsOf(step) <= mostQuickSeconds
}

/**
 * Returns whether the step's call usually takes milliseconds. For this, the call must be quick, or its tool must use no
 * connection to a service.
 */
function isShort(step: WorkflowStep): boolean {
  const tool = getTool(step.tool)
  return isQuickStep(step) || (tool !== undefined && serviceOf(tool) === null)
}

/** Cuts a text to at most this many bytes in UTF-8. A text that was cut ends with `…`. */
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
