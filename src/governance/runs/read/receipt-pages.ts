import { readCursor } from '../../page.ts'

/** A page of a receipt's decisions: at most `limit` after the cursor. */
export interface ReceiptPage {
  readonly limit: number | undefined
  readonly cursor: string | null
  /** Whether the newest decisions come first. Such a receipt is always read in pages. */
  readonly isNewestFirst?: boolean
}

/** A page of the newest decisions has at most this many decisions if the request has no `limit`. */
const usualLimit = 50

/**
 * A page has the decisions with a sequence number above `from` and up to `to`. `next` is the cursor of the next page,
 * or null after the last page.
 */
interface Span {
  readonly from: number
  readonly to: number
  readonly next: number | null
}

export function oldestSpan({ cursor, limit = Infinity }: ReceiptPage, last: number): Span {
  const from = placeAfter(cursor)
  const to = Math.min(last, from + limit)
  return { from, to, next: to < last ? to : null }
}

export function newestSpan({ cursor, limit = usualLimit }: ReceiptPage, last: number): Span {
  const to = cursor === null ? last : Math.min(last, placeAfter(cursor))
  const from = Math.max(0, to - limit)
  return { from, to, next: from > 0 ? from : null }
}

export async function* reversed<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
  const all: T[] = []
  for await (const each of items) all.unshift(each)
  yield* all
}

const placeAfter = (cursor: string | null): number => Number(readCursor(cursor, /^\d{1,9}$/) ?? '0')
