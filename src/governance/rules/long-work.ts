import { nextTurn } from '../../shared/time-slices.ts'
import type { Caller } from '../access/identity.ts'
import { hasRole } from '../access/scopes.ts'
import type { Context } from '../context.ts'
import { DomainError } from '../errors.ts'
import { withShare, type Place } from '../limits/request-shares.ts'

/** The thread works for a part of long work for about this many milliseconds. Then it works for other requests. */
const sliceTime = 5
/** The work of one backtest, analysis or comparison takes at most this many milliseconds of the thread. */
export const mostWork = 5_000
/**
 * A long request is refused if this many large requests of its organization wait in this process already. A long
 * request takes a place for large requests.
 */
export const mostLongWaiting = 4

/** Says which organization pays for long work, whose rights the work uses, and when the work ends early. */
export interface LongRequest {
  /** The work takes a place in the share of this organization (request-shares.ts). */
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
  /**
   * Takes values from a generator until `see` returns a result. Returns this result. Returns `time` if the parts have
   * taken longer than `mostWork`, and null if the generator has ended. Pauses about every 5 ms (`sliceTime`).
   */
  follow<T, R extends string>(values: Iterator<T>, see: (value: T) => R | null): Promise<R | 'time' | null>
  /** Returns whether the parts together have taken `mostWork`. */
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
      const result = await work(slicesOf(role, place, refuseAborted))
      if (!hasRole((await callerNow()).role, role))
        throw new DomainError('unavailable', 'your role has changed meanwhile: try again')
      return result
    },
    mostLongWaiting,
  )
}

function slicesOf(role: Caller['role'], place: Pick<Place, 'works'>, refuseAborted: () => void): Slices {
  let worked = 0
  const isOver = () => worked >= mostWork
  const run = async <T>(part: () => T): Promise<T> => {
    await nextTurn()
    refuseAborted()
    place.works()
    const began = performance.now()
    const result = part()
    worked += performance.now() - began
    return result
  }
  return {
    role,
    isOver,
    run,
    async follow(values, see) {
      for (;;) {
        if (isOver()) return 'time'
        const left = Math.min(sliceTime, mostWork - worked)
        const end = await run(() => followUntil(values, see, performance.now() + left))
        if (end !== 'slice') return end.result
      }
    },
  }
}

/** Takes values until `see` returns a result, until the generator ends, or until the slice is over. */
function followUntil<T, R>(
  values: Iterator<T>,
  see: (value: T) => R | null,
  until: number,
): { readonly result: R | null } | 'slice' {
  do {
    const { done, value } = values.next()
    if (done === true) return { result: null }
    const result = see(value)
    if (result !== null) return { result }
  } while (performance.now() < until)
  return 'slice'
}
