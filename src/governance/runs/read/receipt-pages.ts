import { readCursor } from '../../page.ts'

/** At most `limit` decisions after the cursor. */
export interface ReceiptPage {
  readonly limit: number | undefined
  readonly cursor: string | null
  /** Such a receipt is always read in pages. */
  readonly isNewestFirst?: boolean
}

/** For the newest decisions, if the request has no `limit`. */
const usualLimit = 50

/** Sequence numbers above `from` and up to `to`. `next` is null after the last page. */
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
