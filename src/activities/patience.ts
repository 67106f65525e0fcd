import { isConnectionError } from '../governance/database-errors.ts'
import { DomainError } from '../governance/errors.ts'

/** How long a body may go on after its limit, to end in its own words; longer where bytes have left. */
const graceMilliseconds = { unsent: 2_000, sent: 45_000 }

/** A body that ignores its signal does not hold the attempt for ever. */
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

/** How long an outcome that is known is tried to be saved before the attempt is given up. */
const saveOutcomeMilliseconds = 45_000

/** Tries again while the database is away, for as long as an outcome is tried to be saved. */
export async function throughOutages<T>(work: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + saveOutcomeMilliseconds
  for (;;) {
    try {
      return await work()
    } catch (error) {
      const isAway =
        isConnectionError(error) || (error instanceof DomainError && error.code === 'unavailable')
      if (!isAway || Date.now() > deadline) throw error
      await new Promise((resolve) => setTimeout(resolve, 250))
    }
  }
}
