import type { ToolDeclaration } from '../tools/kit/tool.ts'
import { raceWithLimit } from './patience.ts'
import { ToolError, type Found, type Look } from '../tools/kit/executor.ts'

/*
 * An earlier attempt may have made the call. A look at the service, or a second request with the same key,
 * shows:
 *
 * - `done`: the call has happened.
 * - `absent`: the call is not there after `findableAfterSeconds`. The attempt has failed, and nothing was
 *   done.
 * - `later`: it is not known yet. A later attempt looks again.
 * - `unknown`: it cannot be found out. A person decides.
 */
export type Looked =
  | Extract<Found, { kind: 'done' | 'absent' }>
  | { readonly kind: 'later'; readonly seconds: number }
  | { readonly kind: 'unknown' }

interface Patience {
  /** Seconds after the point of no return. Afterwards a person decides. */
  readonly most: number
  /** In seconds, unless the service asks to wait longer. `ago` counts from the point of no return. */
  pause(ago: number): number
  /** A look that finds no call this many seconds after the point of no return proves that it was not made. */
  readonly absentAfter: number
}

const pauseSeconds = 15
/** With shorter pauses, requests with the same key could use up all attempts of the call. */
const longestPauseSeconds = 1_800

export function patienceWith(tool: ToolDeclaration, isKeyed: boolean): Patience {
  if (!isKeyed)
    return { most: 900, pause: () => pauseSeconds, absentAfter: tool.findableAfterSeconds ?? Infinity }
  return {
    most: tool.ownService?.knowsKeySeconds ?? 0,
    pause: (ago) => Math.min(Math.max(ago / 2, pauseSeconds), longestPauseSeconds),
    absentAfter: 0,
  }
}

/** `ago` is the number of seconds since the point of no return. */
export function readFound(found: Found, patience: Patience, ago: number): Looked {
  if (found.kind === 'done') return found
  const left = patience.absentAfter - ago
  if (found.kind === 'absent' && left <= 0) return found
  return later(patience, ago, found.kind === 'absent' ? left : patience.pause(ago))
}

export function readLookError(error: unknown, patience: Patience, ago: number): Looked {
  if (!(error instanceof ToolError) || !error.retryable) return { kind: 'unknown' }
  return later(patience, ago, Math.max(error.retryAfterSeconds ?? 0, patience.pause(ago)))
}

const later = ({ most }: Patience, ago: number, seconds: number): Looked =>
  ago > most ? { kind: 'unknown' } : { kind: 'later', seconds }

/** The call was sent, but was not carried out. */
export const notMade = (): ToolError =>
  new ToolError('not_made', 'the call was interrupted, and the service shows that it was not carried out', {
    retryable: true,
  })

export const tookTooLong = ({ name }: Pick<ToolDeclaration, 'name'>): ToolError =>
  new ToolError('timeout', `looking for a call of \`${name}\` took too long`, { retryable: true })

/** The result null does not prove that the call was not made. `sentAt` is by `performance.now()`. */
export async function lookOnce(
  find: (signal: AbortSignal, look: Look) => Promise<unknown>,
  sentAt: number,
): Promise<Extract<Found, { kind: 'done' }> | null> {
  const limit = AbortSignal.timeout(30_000)
  const look = { sentSecondsAgo: (performance.now() - sentAt) / 1_000 }
  const found = raceWithLimit(find(limit, look) as Promise<Found>, limit, () => false)
  return found.then(
    (said) => (said.kind === 'done' ? said : null),
    () => null,
  )
}
