import { ApplicationFailure, ApplicationFailureCategory } from '@temporalio/common'
import { failureTypes } from '../contract/messages.ts'
import type { CallSpec } from '../calls/runs/call-spec.ts'
import { longestRetryAfter } from '../shared/outgoing/retry-after.ts'

/** The settings for a step that has no `retry`. */
export const defaultRetry = { attempts: 3, backoff_seconds: 1 }

interface Failing {
  readonly spec: Pick<CallSpec, 'step'>
  /** The number of earlier failures of the call. */
  readonly verdict: { readonly failures: number }
}

export const retryOf = ({ spec }: Failing) => spec.step.retry ?? defaultRetry

/**
 * Returns a failure that asks the workflow to make the call again after a pause. The pause is the step's
 * `backoff_seconds` and doubles with each failure. If the service asks for a longer pause, that pause is used.
 */
export function retryLater(call: Failing, retryAfterSeconds: number | null = null): ApplicationFailure {
  const wanted = Math.max(retryOf(call).backoff_seconds * 2 ** call.verdict.failures, retryAfterSeconds ?? 0)
  const seconds = Math.min(wanted, longestRetryAfter)
  return ApplicationFailure.create({
    message: 'the tool failed and will be tried again',
    type: failureTypes.unavailable,
    nextRetryDelay: Math.max(seconds * 1_000, 1),
    category: ApplicationFailureCategory.BENIGN,
  })
}
