import { DomainError } from './errors.ts'

/** What part of a list is asked for (contract section 1, "Lists"). */
export interface PageRequest {
  readonly limit: number
  /** As answered in `next_cursor`; null for the first page. */
  readonly cursor: string | null
}

export interface Page<T> {
  readonly data: T[]
  readonly next_cursor: string | null
}

/** The text after which a page begins, or null. `validation_error` for what no list has answered. */
export function readCursor(cursor: string | null): string | null {
  if (cursor === null) return null
  const text = Buffer.from(cursor, 'base64url').toString('utf8')
  if (/^[\x21-\x7e]{1,200}$/.test(text) && writeCursor(text) === cursor) return text
  const message = 'is not a cursor: take `next_cursor` of the page before'
  throw new DomainError('validation_error', `\`cursor\` ${message}`, [{ path: 'cursor', message }])
}

/** A page out of `limit + 1` rows: the one too many says whether there is a next one. */
export function pageOf<Row, T>(
  rows: readonly Row[],
  limit: number,
  place: (row: Row) => string,
  view: (row: Row) => T,
): Page<T> {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  const more = rows.length > limit && last !== undefined
  return { data: shown.map(view), next_cursor: more ? writeCursor(place(last)) : null }
}

const writeCursor = (text: string): string => Buffer.from(text, 'utf8').toString('base64url')
