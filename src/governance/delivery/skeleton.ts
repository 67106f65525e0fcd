import type { WorkflowStep } from '../../contract/definition.ts'
import type { SkeletonStep } from '../../contract/messages.ts'
import { kindOf } from '../../steps/index.ts'
import type { FrozenVersion } from '../runs/values/version-cache.ts'

/**
 * If the calls of a step are short (`SkeletonPart.isShort`), a run works on at most this many items of the step at the same time. A
 * short call takes milliseconds, so a larger number would save no time. But it would have a cost, because each call
 * that waits takes an activity in Temporal. A worker that also serves other organizations runs only two such calls of
 * one organization at once (call-turns.ts).
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
 * Returns what the Temporal workflow gets of a version: ids, summaries, activities, dependencies and time limits, but never
 * a parameter.
 */
export function skeletonOf(version: FrozenVersion): SkeletonStep[] {
  return version.definition.steps.map((step) => {
    const { activity, timeoutSeconds, isQuick, isShort, title } = kindOf(step).skeleton(step)
    return {
      id: step.id,
      activity,
      dependsOn: version.dependsOn.get(step.id) ?? [],
      forEach: step.for_each !== undefined,
      continueOnError: step.on_error === 'continue',
      timeoutSeconds,
      ...(isQuick ? { quick: true as const } : {}),
      ...itemsAtOnce(step, isShort),
      summary: cutToBytes(step.summary || title, mostSummaryBytes),
    }
  })
}

function itemsAtOnce({ for_each, parallel }: WorkflowStep, isShort: boolean): Partial<SkeletonStep> {
  if (for_each === undefined) return {}
  if (parallel !== undefined) return { itemsAtOnce: parallel, keepsPlace: true }
  return isShort ? { itemsAtOnce: shortItemsAtOnce } : {}
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
