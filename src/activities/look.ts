import type { ToolDeclaration } from '../catalog/tool.ts'
import { raceWithLimit } from './patience.ts'
import { ToolError, type Found, type Look } from './tools/executor.ts'

/*
 * A `findable` call whose worker died, or whose answer was lost, is looked for before it is made again. A call whose
 * service knows it by a key is sent again instead. The results of such a look are:
 *
 * - `done`: the call has happened; its output is the outcome.
 * - `absent`: the call is not there, although `findableAfterSeconds` have passed. The attempt has failed, and nothing
 *   was done.
 * - `later`: the result is not known yet. The call is looked for again.
 * - `unknown`: the result cannot be found out. A person decides.
 */
export type Looked =
  | Extract<Found, { kind: 'done' | 'absent' }>
  | { readonly kind: 'later'; readonly seconds: number }
  | { readonly kind: 'unknown' }

/** How long a call is looked for. */
export interface Patience {
  /** How many seconds after the point of no return the call is looked for. Afterwards a person decides. */
  readonly most: number
  /** Seconds before the next look, if nothing says how long to wait. */
  pause(ago: number): number
  /** This many seconds after the point of no return, a call that is absent was certainly not made. */
  readonly absentAfter: number
}

const pauseSeconds = 15
/**
 * The longest pause in seconds between two requests with the same key. It must be so long that these requests are fewer
 * than the attempts of a call.
 */
const longestPauseSeconds = 1_800

/** `isKeyed`: the call is sent again with its key, and the service repeats the answer to the first request. */
export function patienceWith(tool: ToolDeclaration, isKeyed: boolean): Patience {
  if (!isKeyed)
    return { most: 900, pause: () => pauseSeconds, absentAfter: tool.findableAfterSeconds ?? Infinity }
  return {
    most: tool.ownService?.knowsKeySeconds ?? 0,
    pause: (ago) => Math.min(Math.max(ago / 2, pauseSeconds), longestPauseSeconds),
    absentAfter: 0,
  }
}

/** Reads the answer of a tool's finder. */
export function readFound(found: Found, patience: Patience, ago: number): Looked {
  if (found.kind === 'done') return found
  const left = patience.absentAfter - ago
  if (found.kind === 'absent' && left <= 0) return found
  return later(patience, ago, found.kind === 'absent' ? left : patience.pause(ago))
}

/** Reads the error of a look. */
export function readLookError(error: unknown, patience: Patience, ago: number): Looked {
  if (!(error instanceof ToolError) || !error.retryable) return { kind: 'unknown' }
  return later(patience, ago, Math.max(error.retryAfterSeconds ?? 0, patience.pause(ago)))
}

const later = ({ most }: Patience, ago: number, seconds: number): Looked =>
  ago > most ? { kind: 'unknown' } : { kind: 'later', seconds }

/** The call was sent, and the service shows that it did not happen. */
export const notMade = (): ToolError =>
  new ToolError('not_made', 'the call was interrupted, and the service shows that it was not carried out', {
    retryable: true,
  })

export const tookTooLong = ({ name }: Pick<ToolDeclaration, 'name'>): ToolError =>
  new ToolError('timeout', `looking for a call of \`${name}\` took too long`, { retryable: true })

/** Longest time of the only look for a cancelled call. */
const lastLookMilliseconds = 30_000

/**
 * Looks once for a cancelled call that was sent at `sentAt` (`performance.now()`), because a cancelled call has no
 * other attempt. A call that is not found so early may still appear, so only a call that is found gives a result.
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
