import { callDigest } from '../../shared/call-digest.ts'
import type { Look, ToolCall } from './executor.ts'
import { textMark } from './tool.ts'

export type Marked = Pick<ToolCall<unknown>, 'idempotencyKey'>

/* A hash, which shows no names and cannot be guessed before the call, but is no secret. GitHub hides it. */

// At most the two line breaks of `withMarker`: with `\n*`, a text of only line breaks would take seconds.
const anyMarker = /\n{0,2}<!-- countersign:call:[\da-f]{32} -->/g

export const digestOf = ({ idempotencyKey }: Marked): string => callDigest(idempotencyKey)

export const markOf = (call: Marked): string => textMark('').of(digestOf(call))

export const hasMark = (text: string): boolean => /countersign:call:[\da-f]{32}/.test(text)

export const markerOf = (call: Marked): string => `<!-- ${markOf(call)} -->`

/** Removes all other markers, because a copied text may carry the marker of another call. */
export function withMarker(text: string, call: Marked): string {
  const bare = withoutMarkers(text)
  return bare === '' ? markerOf(call) : `${bare}\n\n${markerOf(call)}`
}

export const withoutMarkers = (text: string): string => text.replace(anyMarker, '')

/** The clocks of this machine and of a service differ by at most this many milliseconds. */
const clocksDifferMilliseconds = 3_600_000

/** Certainly before, even if the service's clock differs from ours by an hour. */
export const beforeSending = ({ sentSecondsAgo }: Look): Date =>
  new Date(Date.now() - sentSecondsAgo * 1_000 - clocksDifferMilliseconds)
