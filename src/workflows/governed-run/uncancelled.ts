import { CancellationScope, CancelledFailure } from '@temporalio/workflow'

/**
 * Makes a local activity that goes on to its end after a cancellation. If the current scope is cancelled already, this
 * function throws CancelledFailure and does not start the activity.
 *
 * The SDK fails the workflow task if it cancels a local activity that has ended, but whose result the workflow has not
 * read yet. Then the run stands still until Temporal tries the task again, for seconds or even minutes. So no local
 * activity is ever cancelled. Each of them ends soon: engine activities by themselves, and quick calls by their limit.
 */
export async function uncancelled<T>(activity: () => Promise<T>): Promise<T> {
  if (CancellationScope.current().consideredCancelled)
    throw new CancelledFailure('the run has been cancelled')
  return CancellationScope.nonCancellable(activity)
}
