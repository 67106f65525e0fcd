import { nextTurn } from '../../shared/time-slices.ts'
import type { Caller } from '../access/identity.ts'
import { hasRole } from '../access/scopes.ts'
import type { Context } from '../context.ts'
import { DomainError } from '../errors.ts'
import { withShare } from '../limits/request-shares.ts'

/** The work of one backtest, analysis or comparison takes at most this many milliseconds of the thread. */
export const mostWork = 5_000
/**
 * A long request is refused if this many large requests of its organization wait in this process already. A long
 * request takes a place for large requests.
 */
export const mostLongWaiting = 4

/** Says which organization pays for long work, whose rights the work uses, and when the work ends early. */
export interface LongRequest {
  /** The organization whose share of the process the work uses. */
  readonly chargedTo: string
  /**
   * Checks the caller's rights again, and returns the caller with the present role. Throws if the caller has lost a
   * right that the request needs.
   */
  readonly callerNow: () => Promise<Pick<Caller, 'role'>>
  /** Is aborted when the client has gone or the server drains. */
  readonly signal: AbortSignal
}

/** Runs the parts of long work. Between two parts, the thread works for other requests. */
export interface Slices {
  /** The caller's role when the work began. */
  readonly role: Caller['role']
  /** Throws `unavailable` if the signal has aborted. */
  run<T>(part: () => T): Promise<T>
  /** Returns whether the parts together have taken longer than `mostWork`. */
  isOver(): boolean
}

/**
 * Does long work in the share of an organization (request-shares.ts). The caller may lose rights while the request
 * waits or the work goes on. So the rights are checked before the work and again after it. `work` must read all its
 * data itself, so that no data is older than the first check.
 *
 * Throws `rate_limited` if `mostLongWaiting` requests wait already, `unavailable` if the signal has aborted or the
 * caller's role is lower after the work, and the errors of `callerNow`.
 */
export function inSlices<T>(
  { shares }: Pick<Context, 'shares'>,
  { chargedTo, callerNow, signal }: LongRequest,
  work: (slices: Slices) => Promise<T>,
): Promise<T> {
  const refuseAborted = (): void => {
    if (signal.aborted) throw new DomainError('unavailable', 'the work was given up: try again')
  }
  return withShare(
    shares,
    chargedTo,
    'large',
    async (place) => {
      refuseAborted()
      const { role } = await callerNow()
      let worked = 0
      const result = await work({
        role,
        isOver: () => worked > mostWork,
        async run(part) {
          await nextTurn()
          refuseAborted()
          place.works()
          const began = performance.now()
          const done = part()
          worked += performance.now() - began
          return done
        },
      })
      if (!hasRole((await callerNow()).role, role))
        throw new DomainError('unavailable', 'your role has changed meanwhile: try again')
      return result
    },
    mostLongWaiting,
  )
}
