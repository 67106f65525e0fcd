import { CancellationScope, CancelledFailure } from '@temporalio/workflow'

/**
 * Throws CancelledFailure if the scope is already cancelled. Otherwise the activity runs to its end.
 *
 * No local activity is ever cancelled. If one has ended and the workflow has not read the result yet, the SDK
 * lets a cancellation fail the workflow task. The run then stands still for seconds or even minutes. Every
 * local activity ends soon anyway: quick calls have a time limit.
 */
export async function uncancelled<T>(activity: () => Promise<T>): Promise<T> {
  if (CancellationScope.current().consideredCancelled)
    throw new CancelledFailure('the run has been cancelled')
  return CancellationScope.nonCancellable(activity)
}
