import { nextTurn } from '../../shared/time-slices.ts'
import type { Caller } from '../access/identity.ts'
import { hasRole } from '../access/scopes.ts'
import type { Context } from '../context.ts'
import { DomainError } from '../errors.ts'
import type { Permit } from '../limits/fair-share.ts'

/** Milliseconds for a part of long work, after which the thread works for other requests. */
const sliceTime = 5
/** Milliseconds of the thread for one backtest, analysis or comparison. */
export const mostWork = 5_000

export interface LongRequest {
  /** The work needs a permit of this organization (fair-share.ts). */
  readonly chargedTo: string
  /** The caller with the present role. Throws if a right that the request needs is lost. */
  readonly callerNow: () => Promise<Pick<Caller, 'role'>>
  /** When the client has gone or the server drains. */
  readonly signal: AbortSignal
}

export interface Slices {
  /** When the work began. */
  readonly role: Caller['role']
  /** Throws `unavailable` if the signal has aborted. */
  run<T>(part: () => T): Promise<T>
  /** null if the values end before `see` has a result, `time` after `mostWork`. Pauses about every 5 ms. */
  follow<T, R extends string>(values: Iterator<T>, see: (value: T) => R | null): Promise<R | 'time' | null>
  isOver(): boolean
}

/**
 * Does long work in the share of an organization (fair-share.ts). The caller may lose rights meanwhile, so they are
 * checked before and after it. `work` must read all its data itself, so that none is older than the first check.
 *
 * Throws `rate_limited` if too many wait, `unavailable` if the signal has aborted or the role is
 * lower afterwards, and the errors of `callerNow`.
 */
export function inSlices<T>(
  { shares }: Pick<Context, 'shares'>,
  { chargedTo, callerNow, signal }: LongRequest,
  work: (slices: Slices) => Promise<T>,
): Promise<T> {
  const refuseAborted = (): void => {
    if (signal.aborted) throw new DomainError('unavailable', 'the work was given up: try again')
  }
  return shares.long.hold(chargedTo, async (permit) => {
    refuseAborted()
    const { role } = await callerNow()
    const result = await work(slicesOf(role, permit, refuseAborted))
    if (!hasRole((await callerNow()).role, role))
      throw new DomainError('unavailable', 'your role has changed meanwhile: try again')
    return result
  })
}

function slicesOf(role: Caller['role'], permit: Pick<Permit, 'works'>, refuseAborted: () => void): Slices {
  let worked = 0
  const isOver = () => worked >= mostWork
  const run = async <T>(part: () => T): Promise<T> => {
    await nextTurn()
    refuseAborted()
    permit.works()
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
