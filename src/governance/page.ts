import { sql, type Kysely, type SelectQueryBuilder } from 'kysely'
import type { Database } from '../db/schema/index.ts'
import { readBounded } from './bounded-read.ts'
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

/**
 * One page of what `query` selects, by `column`, the greatest first: an id, whose order is that of time. `place` is what a
 * row has there.
 */
export async function readPage<DB, TB extends keyof DB, Row>(
  db: Kysely<Database>,
  query: SelectQueryBuilder<DB, TB, Row>,
  column: string,
  page: PageRequest,
  place: (row: Row) => string,
): Promise<Page<Row>> {
  const after = readCursor(page.cursor)
  const by = sql.ref<string>(column)
  const rest = after === null ? query : query.where(by, '<', after)
  const whole = rest.orderBy(by, 'desc').limit(page.limit + 1)
  const { rows } = await readBounded(db, (trx) => trx.executeQuery(whole))
  return pageOf(rows, page.limit, place, (row) => row)
}

/** The page with each row as callers see it. */
export function viewPage<Row, T>(page: Page<Row>, view: (row: Row) => T): Page<T> {
  return { data: page.data.map(view), next_cursor: page.next_cursor }
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

/** A cursor after which the page that follows `text` begins. */
export const writeCursor = (text: string): string => Buffer.from(text, 'utf8').toString('base64url')
