import type { ToolCall } from '../executor.ts'
import { markOf } from '../marker.ts'

/* Trello stores only texts that people see. So the mark of a call is the last line of a text. */

// At most two line breaks come before the mark. The expression does not allow more of them (`\n*`), because it would then
// search a text of nothing but line breaks for seconds.
const anyMark = /\n{0,2}countersign:call:[\da-f]{32}(?=\s*$)/

export const withoutMark = (text: string): string => text.replace(anyMark, '')

/** Returns the text with the call's own mark. A copied text may carry the mark of another call. */
export function withMark(text: string, call: Pick<ToolCall<unknown>, 'idempotencyKey'>): string {
  const bare = withoutMark(text)
  return bare === '' ? markOf(call) : `${bare}\n\n${markOf(call)}`
}
