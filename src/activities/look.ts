import type { ToolDeclaration } from '../tools/kit/tool.ts'
import { raceWithLimit } from './patience.ts'
import { ToolError, type Found, type Look } from '../tools/kit/executor.ts'

/*
 * If a worker died or an answer was lost, an earlier attempt may have made the call. The next attempt of a `findable`
 * call looks for the call at the service. If the service knows the call by a key, the next attempt sends the call again
 * with this key. In both cases, the attempt has one of these results:
 *
 * - `done`: the call has happened. The result has the call's output.
 * - `absent`: the call is not there, although `findableAfterSeconds` have passed. The attempt has failed, and nothing
 *   was done.
 * - `later`: it is not known yet whether the call has happened. A later attempt looks again.
 * - `unknown`: it cannot be found out whether the call has happened. A person decides.
 */
export type Looked =
  | Extract<Found, { kind: 'done' | 'absent' }>
  | { readonly kind: 'later'; readonly seconds: number }
  | { readonly kind: 'unknown' }

/** The times for a call that is looked for, or that is sent again with its key. */
interface Patience {
  /**
   * Until this many seconds after the point of no return, the call is looked for or sent again. Afterwards a person
   * decides.
   */
  readonly most: number
  /**
   * Returns the seconds until the next look, unless the service asks to wait longer. `ago` is the number of seconds
   * since the point of no return.
   */
  pause(ago: number): number
  /** If a look finds no call this many seconds after the point of no return, the call was certainly not made. */
  readonly absentAfter: number
}

const pauseSeconds = 15
/**
 * The pauses between two requests with the same key grow to at most this many seconds. If the pauses stayed shorter,
 * these requests could use up all attempts of the call.
 */
const longestPauseSeconds = 1_800

/**
 * Returns the times for a call of this tool. `isKeyed` is false if the call is only looked for. `isKeyed` is true if
 * the call is sent again with its key. The service then repeats its answer to the first request.
 */
export function patienceWith(tool: ToolDeclaration, isKeyed: boolean): Patience {
  if (!isKeyed)
    return { most: 900, pause: () => pauseSeconds, absentAfter: tool.findableAfterSeconds ?? Infinity }
  return {
    most: tool.ownService?.knowsKeySeconds ?? 0,
    pause: (ago) => Math.min(Math.max(ago / 2, pauseSeconds), longestPauseSeconds),
    absentAfter: 0,
  }
}

/** Interprets the answer of a tool's finder. `ago` is the number of seconds since the point of no return. */
export function readFound(found: Found, patience: Patience, ago: number): Looked {
  if (found.kind === 'done') return found
  const left = patience.absentAfter - ago
  if (found.kind === 'absent' && left <= 0) return found
  return later(patience, ago, found.kind === 'absent' ? left : patience.pause(ago))
}

/** Interprets the error of a tool's finder. */
export function readLookError(error: unknown, patience: Patience, ago: number): Looked {
  if (!(error instanceof ToolError) || !error.retryable) return { kind: 'unknown' }
  return later(patience, ago, Math.max(error.retryAfterSeconds ?? 0, patience.pause(ago)))
}

const later = ({ most }: Patience, ago: number, seconds: number): Looked =>
  ago > most ? { kind: 'unknown' } : { kind: 'later', seconds }

/** Returns the error for a call that was sent, but was not carried out. */
export const notMade = (): ToolError =>
  new ToolError('not_made', 'the call was interrupted, and the service shows that it was not carried out', {
    retryable: true,
  })

export const tookTooLong = ({ name }: Pick<ToolDeclaration, 'name'>): ToolError =>
  new ToolError('timeout', `looking for a call of \`${name}\` took too long`, { retryable: true })

/** A cancelled call is looked for only once, for at most this many milliseconds. */
const lastLookMilliseconds = 30_000

/**
 * Looks once for a cancelled call, because a cancelled call has no further attempt. `sentAt` is the time at which the
 * call was sent, by `performance.now()`. Returns null if the call is not found. This does not prove that the call was
 * not made, because the call may still appear at the service.
 */
export async function lookOnce(
  find: (signal: AbortSignal, look: Look) => Promise<unknown>,
  sentAt: number,
): Promise<Extract<Found, { kind: 'done' }> | null> {
  const limit = AbortSignal.timeout(lastLookMilliseconds)
  const look = { sentSecondsAgo: (performance.now() - sentAt) / 1_000 }
  const found = raceWithLimit(find(limit, look) as Promise<Found>, limit, () => false)
  return found.then(
    (said) => (said.kind === 'done' ? said : null),
    () => null,
  )
}
