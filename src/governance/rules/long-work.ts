import { nextTurn } from '../../shared/time-slices.ts'
import type { Context } from '../context.ts'
import { DomainError } from '../errors.ts'
import { withShare } from '../limits/request-shares.ts'

/** The thread works for a part of long work for about this many milliseconds. Then it works for other requests. */
const sliceTime = 5
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
  /**
   * Takes values from a generator until `see` returns a result. Returns this result. Returns `time` if the parts have
   * taken longer than `mostWork`, and null if the generator has ended. Pauses about every 5 ms (`sliceTime`).
   */
  follow<T, R extends string>(values: Iterator<T>, see: (value: T) => R | null): Promise<R | 'time' | null>
  /** Returns whether the parts together have taken `mostWork`. */
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
    const run = async <T>(part: () => T): Promise<T> => {
      await nextTurn()
      if (signal.aborted) throw new DomainError('unavailable', 'the work was given up: try again')
      place.works()
      const began = performance.now()
      const result = part()
      worked += performance.now() - began
      return result
    }
    const isOver = () => worked >= mostWork
    return work({
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
    })
  })
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
