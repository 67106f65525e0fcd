import { nextTurn } from '../../shared/time-slices.ts'
import type { Context } from '../context.ts'
import { DomainError } from '../errors.ts'
import { withShare } from '../limits/request-shares.ts'

/** The work of one backtest, analysis or comparison takes at most this many milliseconds of the thread. */
export const mostWork = 5_000

/** Says which organization pays for long work, and when the work ends early. */
export interface LongRequest {
  /** The organization whose share of the process the work uses. */
  readonly chargedTo: string
  /** Is aborted when the client has gone or the server drains. */
  readonly signal: AbortSignal
}

/** Runs the parts of long work. Between two parts, the thread works for other requests. */
export interface Slices {
  /** Throws `unavailable` if the signal has aborted. */
  run<T>(part: () => T): Promise<T>
  /** Returns whether the parts together have taken longer than `mostWork`. */
  isOver(): boolean
}

/** Does long work in the share of an organization (request-shares.ts). */
export function inSlices<T>(
  { shares }: Pick<Context, 'shares'>,
  { chargedTo, signal }: LongRequest,
  work: (slices: Slices) => Promise<T>,
): Promise<T> {
  return withShare(shares, chargedTo, 'large', (place) => {
    let worked = 0
    return work({
      isOver: () => worked > mostWork,
      async run(part) {
        await nextTurn()
        if (signal.aborted) throw new DomainError('unavailable', 'the work was given up: try again')
        place.works()
        const began = performance.now()
        const result = part()
        worked += performance.now() - began
        return result
      },
    })
  })
}
