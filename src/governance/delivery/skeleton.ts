import { getTool } from '../../catalog/index.ts'
import { serviceOf } from '../../catalog/tool.ts'
import type { WorkflowStep } from '../../contract/definition.ts'
import type { SkeletonStep } from '../../contract/messages.ts'
import type { FrozenVersion } from '../runs/values/version-cache.ts'

const defaultTimeoutSeconds = 60
/** A call is quick only if its time limit is at most this long. Other calls are ordinary activities. */
const mostQuickSeconds = 10

/**
 * A run works on at most this many items of a step at the same time if the step's calls are short (`isShort`). Such a
 * call takes milliseconds, so a larger number would save no time. It would only have a cost. A worker that also serves
 * other organizations runs only two such calls of one organization at once (call-places.ts). Each call that waits takes
 * an activity in Temporal. The number is stored in the run's input. So runs in progress replay with the same number
 * after a later version has changed it.
 */
const shortItemsAtOnce = 10

/**
 * A step's summary is cut to this many bytes. The interpreter adds the item's index to the summary, and Temporal
 * accepts at most 400 bytes.
 */
const mostSummaryBytes = 256

/**
 * Returns the parts of a version that the Temporal workflow gets: ids, summaries, tools, dependencies and time limits,
 * but never a parameter.
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
 * Whether a call may run as a local activity. Such a call is made again if its worker dies, so the tool must allow
 * repetition. A workflow task waits for the call's end, so the call must be short.
 */
export function isQuickStep(step: WorkflowStep): boolean {
  const repeat = getTool(step.tool)?.repeat
  const mayRepeat = repeat === 'free' || repeat === 'transactional' || repeat === 'keyed'
  return mayRepeat && secondsOf(step) <= mostQuickSeconds
}

/** Whether a call of the step usually takes milliseconds: it is quick, or stays on this machine and its database. */
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
