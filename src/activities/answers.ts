import type { Context as ActivityContext } from '@temporalio/activity'
import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { failureTypes, type HeldDetails, type StepDone } from '../contract/messages.ts'
import type { DecidedCall, Refused } from '../calls/runs/call.ts'
import { longestRetryAfter } from '../shared/outgoing/retry-after.ts'

/** The delay doubles with each attempt, up to `mostSeconds`. */
const roomDelay = { firstSeconds: 2, mostSeconds: 30 }

/** Temporal tries the call again until the organization frees storage or gets a higher limit. */
function waitsForRoom(attempt: number): ApplicationFailure {
  const { firstSeconds, mostSeconds } = roomDelay
  return ApplicationFailure.create({
    message: 'waits for storage room in the organization',
    type: failureTypes.unavailable,
    nextRetryDelay: Math.min(firstSeconds * 2 ** Math.min(attempt - 1, 10), mostSeconds) * 1_000,
    category: ApplicationFailureCategory.BENIGN,
  })
}

/** Returns only a completed or skipped outcome. Every other state is thrown as an ApplicationFailure. */
export function answer(refused: Refused, { info }: ActivityContext): StepDone {
  if (refused.state === 'no_room') throw waitsForRoom(info.attempt)
  if (refused.state === 'completed' || refused.state === 'skipped') return { outcome: refused.state }
  if (refused.state === 'held') {
    const { waitsFor, approvalId, expiresAt } = refused
    const details: HeldDetails = { waitsFor, approvalId, expiresAt }
    const what = { approval: 'approval', slot: 'a slot', time: 'a time', answer: 'an answer' }[waitsFor]
    throw benign(
      `waits for ${what}`,
      waitsFor === 'time' || waitsFor === 'answer' ? failureTypes.waiting : failureTypes.approvalRequired,
      details,
    )
  }
  if (refused.state === 'unknown_outcome')
    throw benign('waits for a person to resolve it', failureTypes.unknownOutcome, {})
  throw benign(refused.state, failureTypes.ended, { outcome: refused.state })
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

/** The settings for a step that has no `retry`. */
export const defaultRetry = { attempts: 3, backoff_seconds: 1 }

export const retryOf = ({ call }: DecidedCall) => call.step.retry ?? defaultRetry

/** The pause doubles with each failure. A longer pause that the service asks for is used instead. */
export function retryLater(
  decided: DecidedCall,
  retryAfterSeconds: number | null = null,
): ApplicationFailure {
  const wanted = Math.max(
    retryOf(decided).backoff_seconds * 2 ** decided.decision.failures,
    retryAfterSeconds ?? 0,
  )
  const seconds = Math.min(wanted, longestRetryAfter)
  return ApplicationFailure.create({
    message: 'the tool failed and will be tried again',
    type: failureTypes.unavailable,
    nextRetryDelay: Math.max(seconds * 1_000, 1),
    category: ApplicationFailureCategory.BENIGN,
  })
}
