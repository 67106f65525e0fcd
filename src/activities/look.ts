import type { ToolDeclaration } from '../catalog/tool.ts'
import { raceWithLimit } from './patience.ts'
import { ToolError, type Found, type Look } from './tools/executor.ts'

/*
 * A `findable` call whose worker died, or whose answer was lost, is looked for before it is made again. What a look says:
 *
 * - `done`: the call has happened; its output is the outcome.
 * - `absent`: not there, although `findableAfterSeconds` have passed. The attempt has failed, and nothing was done.
 * - `later`: not known yet. The call is looked for again.
 * - `unknown`: it cannot be found out. A person decides.
 */
export type Looked =
  | Extract<Found, { kind: 'done' | 'absent' }>
  | { readonly kind: 'later'; readonly seconds: number }
  | { readonly kind: 'unknown' }

/** After this time a call that could not be looked for is given to a person. */
const longestSeconds = 900
/** The pause before the next look if nothing says how long to wait. */
const pauseSeconds = 15

/** Reads the answer of a tool's finder. */
export function readFound(
  found: Found,
  { findableAfterSeconds = Infinity }: ToolDeclaration,
  ago: number,
): Looked {
  if (found.kind === 'done') return found
  const left = findableAfterSeconds - ago
  if (found.kind === 'absent' && left <= 0) return found
  return later(ago, found.kind === 'absent' ? left : pauseSeconds)
}

/** Reads the error of a look. */
export function readLookError(error: unknown, ago: number): Looked {
  if (!(error instanceof ToolError) || !error.retryable) return { kind: 'unknown' }
  return later(ago, Math.max(error.retryAfterSeconds ?? 0, pauseSeconds))
}

const later = (ago: number, seconds: number): Looked =>
  ago > longestSeconds ? { kind: 'unknown' } : { kind: 'later', seconds }

/** The call was sent, and the service shows that it did not happen. */
export const notMade = (): ToolError =>
  new ToolError('not_made', 'the call was interrupted, and the service shows that it was not carried out', {
    retryable: true,
  })

/** Longest time of the only look for a cancelled call. */
const lastLookMilliseconds = 30_000

/**
 * Looks for a call that was cancelled and sent at `sentAt` (`performance.now()`), because it has no other attempt. Only
 * what is found is certain so early.
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
