import type { Context as ActivityContext } from '@temporalio/activity'
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { failureTypes, type HeldDetails, type StepDone } from '../contract/messages.ts'
import type { StepVerdict, Unseen } from '../calls/runs/effect.ts'

/**
 * A call without storage room is tried again after a delay. The first delay is `firstSeconds`. Each further delay is
 * twice as long as the last one, up to `mostSeconds`.
 */
const roomDelay = { firstSeconds: 2, mostSeconds: 30 }

/**
 * The failure of a call that has no storage room. Temporal tries the call again until the organization frees storage or
 * gets a higher limit. `attempt` is Temporal's number of the attempt.
 */
function waitsForRoom(attempt: number): ApplicationFailure {
  const { firstSeconds, mostSeconds } = roomDelay
  return ApplicationFailure.create({
    message: 'waits for storage room in the organization',
    type: failureTypes.unavailable,
    nextRetryDelay: Math.min(firstSeconds * 2 ** Math.min(attempt - 1, 10), mostSeconds) * 1_000,
    category: ApplicationFailureCategory.BENIGN,
  })
}

/**
 * Tells the workflow the state of a call that does not run now. Returns the outcome of a completed or skipped call.
 * Throws an ApplicationFailure for every other state.
 */
export function answer(
  verdict: Exclude<Extract<StepVerdict, { go: false }>, Unseen>,
  { info }: ActivityContext,
): StepDone {
  if (verdict.state === 'no_room') throw waitsForRoom(info.attempt)
  if (verdict.state === 'completed' || verdict.state === 'skipped') return { outcome: verdict.state }
  if (verdict.state === 'held') {
    const { waitsFor, approvalId, expiresAt } = verdict
    const details: HeldDetails = { waitsFor, approvalId, expiresAt }
    throw benign(
      `waits for ${waitsFor === 'slot' ? 'a slot' : 'approval'}`,
      failureTypes.approvalRequired,
      details,
    )
  }
  if (verdict.state === 'unknown_outcome')
    throw benign('waits for a person to resolve it', failureTypes.unknownOutcome, {})
  throw benign(verdict.state, failureTypes.ended, { outcome: verdict.state })
}

function benign(message: string, type: string, details: object): ApplicationFailure {
  return ApplicationFailure.create({
    message,
    type,
    nonRetryable: true,
    details: [details],
    category: ApplicationFailureCategory.BENIGN,
  })
}
