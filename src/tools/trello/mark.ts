import type { ToolCall } from '../kit/executor.ts'
import { markOf } from '../kit/marker.ts'

/* Trello stores only texts that people see. So the mark of a call is the last line of a text. */

// The expression allows at most two line breaks before a mark, because `withMark` writes two. With `\n*`, searching a
// text of nothing but line breaks would take seconds.
const anyMark = /\n{0,2}countersign:call:[\da-f]{32}(?=\s*$)/

export const withoutMark = (text: string): string => text.replace(anyMark, '')

/**
 * Returns the text with the call's own mark. Removes another mark at the end, because a copied text may carry the mark
 * of another call.
 */
export function withMark(text: string, call: Pick<ToolCall<unknown>, 'idempotencyKey'>): string {
  const bare = withoutMark(text)
  return bare === '' ? markOf(call) : `${bare}\n\n${markOf(call)}`
}
