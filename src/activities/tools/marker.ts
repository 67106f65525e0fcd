import { createHash } from 'node:crypto'
import type { ToolCall } from './executor.ts'

/*
 * The marker of a findable call: a comment in the text that it writes, which the service does not show to readers. It
 * names the call (run, step, item) by a hash. So it shows no name of the workflow, and cannot be guessed
 * before the call is made. It is no secret.
 */

const anyMarker = /\n*<!-- countersign:call:[\da-f]{32} -->/g

export function markerOf({ idempotencyKey }: Pick<ToolCall<unknown>, 'idempotencyKey'>): string {
  return `<!-- countersign:call:${createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 32)} -->`
}

/** The text with the call's own marker and no other: a copied text may carry the marker of another call. */
export function withMarker(text: string, call: Pick<ToolCall<unknown>, 'idempotencyKey'>): string {
  const bare = withoutMarkers(text)
  return bare === '' ? markerOf(call) : `${bare}\n\n${markerOf(call)}`
}

export const withoutMarkers = (text: string): string => text.replace(anyMarker, '')
