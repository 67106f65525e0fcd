import { isConnectionError } from '../db/errors.ts'
import { DomainError } from '../governance/errors.ts'
import type { Context as ActivityContext } from '@temporalio/activity'

/**
 * Returns whether the error means that the database cannot be reached, or that the same work can succeed later
 * (DomainError `unavailable`).
 */
export const isOutage = (error: unknown): boolean =>
  isConnectionError(error) || (error instanceof DomainError && error.code === 'unavailable')

/** Milliseconds for which a body may continue after its time limit. A body that has sent bytes gets more time. */
const graceMilliseconds = { unsent: 2_000, sent: 45_000 }

/** Waits for the body. If the body ignores its signal, rejects when `graceMilliseconds` have passed after `limit`. */
export function raceWithLimit<T>(body: Promise<T>, limit: AbortSignal, isSent: () => boolean): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const onLimit = (): void => {
      const grace = isSent() ? graceMilliseconds.sent : graceMilliseconds.unsent
      setTimeout(() => reject(limit.reason as Error), grace).unref()
    }
    limit.addEventListener('abort', onLimit, { once: true })
    body.then(resolve, reject).finally(() => limit.removeEventListener('abort', onLimit))
  })
}

/** Saving a known outcome is tried for this many milliseconds. Then the attempt fails. */
const saveOutcomeMilliseconds = 45_000

/** Repeats `work` after an outage (`isOutage`), for at most 45 seconds. */
export async function throughOutages<T>(work: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + saveOutcomeMilliseconds
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!isOutage(error) || Date.now() > deadline) throw error
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
  }
}

/** Returns whether the run was cancelled or the worker stops. */
export const isCancelled = (activity: ActivityContext): boolean => activity.cancellationSignal.aborted

/** Returns whether the worker stops. Such a stop cancels no call, because another worker continues the calls. */
export function isShutdown(activity: ActivityContext): boolean {
  if (!isCancelled(activity)) return false
  const { reason } = activity.cancellationSignal as { reason?: unknown }
  return !(reason instanceof Error) || reason.message !== 'CANCELLED'
}
