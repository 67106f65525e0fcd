import { createHash } from 'node:crypto'
import type { Look, ToolCall } from './executor.ts'

type Marked = Pick<ToolCall<unknown>, 'idempotencyKey'>

/*
 * The marker of a findable call contains a hash of the run, step and item. So the marker shows no name of the workflow.
 * Nobody can guess the marker before the call is made. The marker is no secret. In a text for GitHub, the marker is an
 * HTML comment, which GitHub does not show.
 */

// The expression allows at most two line breaks before a marker, because `withMarker` writes two. With `\n*`, searching
// a text of nothing but line breaks would take seconds.
const anyMarker = /\n{0,2}<!-- countersign:call:[\da-f]{32} -->/g

/** Returns the hash that names the call: 32 characters of `0-9` and `a-f`. */
export const digestOf = ({ idempotencyKey }: Marked): string =>
  createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 32)

export const markOf = (call: Marked): string => `countersign:call:${digestOf(call)}`

/** Returns whether a text contains the mark of any call. */
export const hasMark = (text: string): boolean => /countersign:call:[\da-f]{32}/.test(text)

export const markerOf = (call: Marked): string => `<!-- ${markOf(call)} -->`

/**
 * Returns the text with the call's own marker. Removes all other markers, because a copied text may carry the marker of
 * another call.
 */
export function withMarker(text: string, call: Marked): string {
  const bare = withoutMarkers(text)
  return bare === '' ? markerOf(call) : `${bare}\n\n${markerOf(call)}`
}

export const withoutMarkers = (text: string): string => text.replace(anyMarker, '')

/** The clocks of this machine and of a service differ by at most this many milliseconds. */
const clocksDifferMilliseconds = 3_600_000

/**
 * Returns a time that is certainly before the call was sent, even if the service's clock differs from ours by an hour.
 * Everything that the call has made is younger than this time.
 */
export const beforeSending = ({ sentSecondsAgo }: Look): Date =>
  new Date(Date.now() - sentSecondsAgo * 1_000 - clocksDifferMilliseconds)
