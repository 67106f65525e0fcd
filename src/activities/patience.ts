import { isConnectionError } from '../db/errors.ts'
import { DomainError } from '../governance/errors.ts'
import type { Context as ActivityContext } from '@temporalio/activity'

/** The database cannot be reached, or the same work can succeed later (DomainError `unavailable`). */
export const isOutage = (error: unknown): boolean =>
  isConnectionError(error) || (error instanceof DomainError && error.code === 'unavailable')

/** How long a body may continue after its time limit. A body that has sent bytes gets more time. */
const graceMilliseconds = { unsent: 2_000, sent: 45_000 }

/** If the body ignores its signal, rejects when `graceMilliseconds` have passed after `limit`. */
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

/** The attempt fails after this time. */
const saveOutcomeMilliseconds = 45_000

/** This takes at most 45 seconds. */
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

/** This is also true if the worker stops. */
export const isCancelled = (activity: ActivityContext): boolean => activity.cancellationSignal.aborted

/** Such a stop cancels no call, because another worker continues the calls. */
export function isShutdown(activity: ActivityContext): boolean {
  if (!isCancelled(activity)) return false
  const { reason } = activity.cancellationSignal as { reason?: unknown }
  return !(reason instanceof Error) || reason.message !== 'CANCELLED'
}
