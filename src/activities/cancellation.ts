import type { Context as ActivityContext } from '@temporalio/activity'

/** Returns whether the run was cancelled or the worker stops. */
export const isCancelled = (activity: ActivityContext): boolean => activity.cancellationSignal.aborted

/** Returns whether the worker stops. Such a stop cancels no call, because another worker continues the calls. */
export function isShutdown(activity: ActivityContext): boolean {
  if (!isCancelled(activity)) return false
  const { reason } = activity.cancellationSignal as { reason?: unknown }
  return !(reason instanceof Error) || reason.message !== 'CANCELLED'
}
