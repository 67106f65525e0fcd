import { CancellationScope, CancelledFailure } from '@temporalio/workflow'

/**
 * Runs a local activity to its end, even if the scope is cancelled meanwhile. If the current scope is already
 * cancelled, throws CancelledFailure and does not start the activity.
 *
 * No local activity is ever cancelled, because the SDK handles one case badly. If a local activity has ended and the
 * workflow has not read the result yet, a cancellation fails the workflow task. The run then stands still until
 * Temporal tries the task again, for seconds or even minutes. Every local activity ends soon anyway. Engine activities
 * end by themselves, and quick calls have a time limit.
 */
export async function uncancelled<T>(activity: () => Promise<T>): Promise<T> {
  if (CancellationScope.current().consideredCancelled)
    throw new CancelledFailure('the run has been cancelled')
  return CancellationScope.nonCancellable(activity)
}
