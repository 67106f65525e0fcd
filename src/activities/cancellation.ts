import type { Context as ActivityContext } from '@temporalio/activity'

/** Whether the run was cancelled or the worker stops. */
export const isCancelled = (activity: ActivityContext): boolean => activity.cancellationSignal.aborted

/** Whether the worker stops. Another worker then continues its calls, so these calls are not cancelled. */
export function isShutdown(activity: ActivityContext): boolean {
  if (!isCancelled(activity)) return false
  const { reason } = activity.cancellationSignal as { reason?: unknown }
  return !(reason instanceof Error) || reason.message !== 'CANCELLED'
}
