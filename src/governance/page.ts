import { sql, type SelectQueryBuilder, type Transaction } from 'kysely'
import type { Db, Database } from '../db/schema/index.ts'
import { idPrefixes, type IdKind } from '../contract/ids.ts'
import { DomainError } from './errors.ts'

/** The page of a list that a caller asks for (docs/reference/errors.md, "Lists"). */
export interface PageRequest {
  readonly limit: number
  /** The `next_cursor` of the previous page; null for the first page. */
  readonly cursor: string | null
}

export interface Page<T> {
  readonly data: T[]
  readonly next_cursor: string | null
}

/**
 * Decodes a cursor. Returns the text that was given to `writeCursor`: the page begins after this position. Returns null
 * for the first page. `form` is the pattern of the list's positions. Throws `validation_error` if `cursor` is not a
 * cursor of this list.
 */
export function readCursor(cursor: string | null, form: RegExp): string | null {
  if (cursor === null) return null
  const text = Buffer.from(cursor, 'base64url').toString('utf8')
  if (form.test(text) && writeCursor(text) === cursor) return text
  throw notOfList()
}

function notOfList(): DomainError {
  const message = 'is not a cursor of this list: take `next_cursor` of the page before'
  return new DomainError('validation_error', `\`cursor\` ${message}`, [{ path: 'cursor', message }])
}

/**
 * Reads one page of the rows of `query`, sorted by `column` in descending order. The column has the rows' ids, which
 * sort by time. Throws `validation_error` for a cursor of a list of another kind (docs/decisions/0248).
 */
export async function readPage<DB, TB extends keyof DB, Row extends { readonly id: string }>(
  db: Db,
  query: SelectQueryBuilder<DB, TB, Row>,
  kind: IdKind,
  page: PageRequest,
  column = 'id',
): Promise<Page<Row>> {
  const after = idAfter(kind, page)
  const by = sql.ref<string>(column)
  const rest = after === null ? query : query.where(by, '<', after)
  const whole = rest.orderBy(by, 'desc').limit(page.limit + 1)
  const { rows } = await readBounded(db, (trx) => trx.executeQuery(whole))
  return pageOf(
    rows,
    page.limit,
    ({ id }) => id,
    (row) => row,
  )
}

/** Reads one page as `readPage`, and converts its rows for the API. */
export async function listPage<DB, TB extends keyof DB, Row extends { readonly id: string }, T>(
  db: Db,
  query: SelectQueryBuilder<DB, TB, Row>,
  kind: IdKind,
  page: PageRequest,
  view: (row: Row) => T,
  column?: string,
): Promise<Page<T>> {
  const { data, next_cursor } = await readPage(db, query, kind, page, column)
  return { data: data.map(view), next_cursor }
}

/** Returns the id after which the page begins; null for the first page. Throws as `readPage` does. */
export const idAfter = (kind: IdKind, { cursor }: PageRequest): string | null =>
  readCursor(cursor, new RegExp(`^${idPrefixes[kind]}_[0-9A-Z]{26}$`))

/** Makes a page from up to `limit + 1` rows. The extra row shows that there is a next page. */
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

/**
 * Returns one page of a list in memory, in the order of the list. `place` returns a text that is different for each
 * item. Throws `validation_error` for the cursor of an item that is not in the list.
 */
export function pageOfList<T>(items: readonly T[], page: PageRequest, place: (item: T) => string): Page<T> {
  const after = readCursor(page.cursor, /^[\x21-\x7e]{1,200}$/)
  const last = after === null ? -1 : items.findIndex((item) => place(item) === after)
  if (after !== null && last === -1) throw notOfList()
  const from = last + 1
  return pageOf(items.slice(from, from + page.limit + 1), page.limit, place, (item) => item)
}

/** The cursor of the page that begins after `text`. */
export const writeCursor = (text: string): string => Buffer.from(text, 'utf8').toString('base64url')

/** A statement may take at most this many milliseconds. */
const longest = 10_000
const queryCancelled = '57014'

/**
 * Calls `work`, which reads the rows of one answer. All statements of `work` read from one snapshot, with index scans
 * and without parallel workers. A statement that takes longer than `milliseconds` is cancelled, and `unavailable` is
 * thrown. So no list occupies a connection for long (docs/decisions/0067).
 */
export async function readBounded<T>(
  db: Db,
  work: (trx: Transaction<Database>) => Promise<T>,
  milliseconds = longest,
): Promise<T> {
  try {
    return await db
      .transaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute(async (trx) => {
        await sql`
          select set_config('statement_timeout', ${`${milliseconds}`}, true), set_config('enable_seqscan', 'off', true),
                 set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true),
                 set_config('max_parallel_workers_per_gather', '0', true)`.execute(trx)
        return work(trx)
      })
  } catch (error) {
    if ((error as { code?: unknown }).code !== queryCancelled) throw error
    throw new DomainError('unavailable', 'the list takes too long to read: ask for fewer rows')
  }
}
