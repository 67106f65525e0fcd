import { sql, type RawBuilder, type Selectable, type SelectQueryBuilder, type Transaction } from 'kysely'
import type { Db, Database } from '../db/schema/index.ts'
import { idPrefixes, type IdKind } from '../contract/ids.ts'
import { DomainError, notFound } from './errors.ts'

/** See docs/reference/errors.md, "Lists". */
export interface PageRequest {
  readonly limit: number
  /** The `next_cursor` of the page before. */
  readonly cursor: string | null
  /** Default: newest. */
  readonly order?: 'newest' | 'oldest' | undefined
}

export interface Page<T> {
  readonly data: T[]
  readonly next_cursor: string | null
}

/** null for the first page. Throws `validation_error` unless it is of this list, whose positions have this form. */
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
 * By `column`, which has the rows' ids: they sort by time. Throws `validation_error` for a cursor of a list
 * of another kind (docs/decisions/0248).
 */
export async function readPage<DB, TB extends keyof DB, Row extends { readonly id: string }>(
  db: Db,
  query: SelectQueryBuilder<DB, TB, Row>,
  kind: IdKind,
  page: PageRequest,
  column = 'id',
): Promise<Page<Row>> {
  const whole = pageQuery(query, kind, page, column)
  const { rows } = await readBounded(db, (trx) => trx.executeQuery(whole))
  return pageOf(
    rows,
    page.limit,
    ({ id }) => id,
    (row) => row,
  )
}

/** With one row more than the page has. Throws as `readPage` does. */
export function pageQuery<DB, TB extends keyof DB, Row>(
  query: SelectQueryBuilder<DB, TB, Row>,
  kind: IdKind,
  page: PageRequest,
  column = 'id',
): SelectQueryBuilder<DB, TB, Row> {
  const after = idAfter(kind, page)
  const by = sql.ref<string>(column)
  const [past, direction] = page.order === 'oldest' ? (['>', 'asc'] as const) : (['<', 'desc'] as const)
  const rest = after === null ? query : query.where(by, past, after)
  return rest.orderBy(by, direction).limit(page.limit + 1)
}

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

type OwnedTable = {
  [T in keyof Database]: Database[T] extends { id: unknown; organization_id: unknown } ? T : never
}[keyof Database]

/** The rows of objects that organizations own, and what callers see of them. */
export interface Owned<View extends object = object> {
  readonly table: OwnedTable
  readonly kind: IdKind
  readonly word: string
  /** SQL: whether the member `m` sees the row `o`. Default: every member does. */
  readonly seen?: RawBuilder<boolean>
  /** SQL: the text of the row `o` in which a search looks. */
  readonly searched?: RawBuilder<string>
  /** SQL: the e-mail address of the person of the row `o`, as `owner_email`. Default: null. */
  readonly ownerEmail?: RawBuilder<string | null>
  view(row: never, context: never): View | Promise<View>
}

/** `now` is the database's time. */
export const owned = <T extends OwnedTable, View extends object, C>(
  given: Pick<Owned, 'kind' | 'word' | 'seen' | 'searched' | 'ownerEmail'> & {
    readonly table: T
    view(
      row: Selectable<Database[T]> & { readonly now: Date; readonly owner_email: string | null },
      context: C,
    ): View | Promise<View>
  },
): Owned<View> => given

interface Member {
  readonly organizationId: string
  readonly userId: string
}

/** SQL: whether `text` has this part, in upper or lower case. */
export const hasPart = (text: RawBuilder<string>, part: string): RawBuilder<boolean> =>
  sql<boolean>`position(lower(${part}) in lower(${text})) > 0`

/** Newest first; with `search`, those whose `searched` text has it. Throws as `readPage` does. */
export async function listOwned<View extends object>(
  context: { readonly db: Db },
  rows: Owned<View>,
  caller: Member,
  page: PageRequest,
  search?: string,
): Promise<Page<View>> {
  const { searched } = rows
  const { data, next_cursor } = await readPage(
    context.db,
    seenBy(context.db, rows, caller).$if(search !== undefined && searched !== undefined, (some) =>
      some.where(hasPart(searched as RawBuilder<string>, search as string)),
    ),
    rows.kind,
    page,
    'o.id',
  )
  return { data: await Promise.all(data.map((row) => show(rows, row, context))), next_cursor }
}

/** Throws `not_found`. */
export async function readOwned<View extends object>(
  context: { readonly db: Db },
  rows: Owned<View>,
  caller: Member,
  id: string,
): Promise<View> {
  const row = await seenBy(context.db, rows, caller).where('o.id', '=', id).executeTakeFirst()
  if (row === undefined) throw notFound(rows.word, id)
  return show(rows, row, context)
}

/** The row is one of the table, and `C` a part of the context: `owned` has checked both. */
async function show<View extends object>(rows: Owned<View>, row: object, context: object): Promise<View> {
  return rows.view(row as never, context as never)
}

/** The compiler knows the columns that all these tables have. */
const seenBy = (
  db: Db,
  { table, seen, ownerEmail = sql<null>`null` }: Owned,
  { organizationId, userId }: Member,
) =>
  db
    .selectFrom(`${table as 'rules'} as o`)
    .selectAll('o')
    .select([sql<Date>`clock_timestamp()`.as('now'), ownerEmail.as('owner_email')])
    .where('o.organization_id', '=', organizationId)
    .$if(seen !== undefined, (some) =>
      some.where(sql<boolean>`exists (select from memberships as m
        where m.organization_id = o.organization_id and m.user_id = ${userId} and (${seen}))`),
    )

/** The page begins after it. Throws as `readPage` does. */
export const idAfter = (kind: IdKind, { cursor }: PageRequest): string | null =>
  readCursor(cursor, new RegExp(`^${idPrefixes[kind]}_[0-9A-Z]{26}$`))

/** From up to `limit + 1` rows: the last shows that there is a next page. */
export function pageOf<Row, T>(
  rows: readonly Row[],
  limit: number,
  cursorOf: (row: Row) => string,
  view: (row: Row) => T,
): Page<T> {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  const more = rows.length > limit && last !== undefined
  return { data: shown.map(view), next_cursor: more ? writeCursor(cursorOf(last)) : null }
}

/** `place` differs for each item. Throws `validation_error` for the cursor of an item that is not in the list. */
export function pageOfList<T>(
  items: readonly T[],
  page: PageRequest,
  cursorOf: (item: T) => string,
): Page<T> {
  const after = readCursor(page.cursor, /^[\x21-\x7e]{1,200}$/)
  const last = after === null ? -1 : items.findIndex((item) => cursorOf(item) === after)
  if (after !== null && last === -1) throw notOfList()
  const from = last + 1
  return pageOf(items.slice(from, from + page.limit + 1), page.limit, cursorOf, (item) => item)
}

/** The cursor of the page that begins after `text`. */
export const writeCursor = (text: string): string => Buffer.from(text, 'utf8').toString('base64url')

/** Milliseconds of a statement. */
const longest = 10_000
const queryCancelled = '57014'

/**
 * All statements of `work` read from one snapshot, with index scans and without parallel workers. A longer one is
 * cancelled, and `unavailable` thrown, so no list occupies a connection for long (docs/decisions/0067).
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

/** 0 for another text: no version has this number. */
export function versionNumber(text: string): number {
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : 0
}
