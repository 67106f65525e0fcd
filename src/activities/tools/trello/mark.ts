import type { ToolCall } from '../executor.ts'
import { markOf } from '../marker.ts'

/* Trello keeps nothing besides a text that people see, so the mark of a call is its last line. */

// One line break or two, as people may edit it. With `\n*` a text of nothing but line breaks would take seconds.
const anyMark = /\n{0,2}countersign:call:[\da-f]{32}(?=\s*$)/

export const withoutMark = (text: string): string => text.replace(anyMark, '')

/** The text with the call's own mark: a copied text may carry that of another call. */
export function withMark(text: string, call: Pick<ToolCall<unknown>, 'idempotencyKey'>): string {
  const bare = withoutMark(text)
  return bare === '' ? markOf(call) : `${bare}\n\n${markOf(call)}`
}
