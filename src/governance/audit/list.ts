import { sql, type RawBuilder, type Transaction } from 'kysely'
import { firstEntryFrom } from '../../db/queries/audit.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import { readBounded } from '../bounded-read.ts'
import { partsOf, type Part, type Stretch } from './counts.ts'

/** Filters of the audit listing. */
export interface AuditFilters {
  readonly eventType?: string | undefined
  readonly userId?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

/**
 * Returns one page of entries, the newest first. The first page has the number 1. Entries at `since` are included,
 * entries at `until` are not. Reads only the text of this page's entries. Entries are found by time with a binary
 * search, and by person and type with indexes (docs/decisions/0067).
 */
export async function listAudit(
  db: Db,
  organizationId: string,
  filters: AuditFilters,
  page: number,
  perPage: number,
): Promise<{ events: Record<string, unknown>[]; page: number; per_page: number; total: number }> {
  const skipped = (page - 1) * perPage
  return readBounded(db, async (trx) => {
    const [from, to] = await stretchOf(trx, organizationId, filters)
    if (from >= to) return { events: [], page, per_page: perPage, total: 0 }
    const { eventType, userId } = filters
    const isWhole = eventType === undefined && userId === undefined
    const ofPerson = userId === undefined ? sql`` : sql`and user_id = ${userId}`
    // For one person, PostgreSQL must use the index by person (`audit_events_person`). With the index
    // by type, it would read the text of every entry of the type. The index by person contains the expression
    // `event_type || ''`, and the index by type does not.
    const type = userId === undefined ? sql`event_type` : sql`event_type || ''`
    const ofType = eventType === undefined ? sql`` : sql`and ${type} = ${eventType}`
    const matching = ([first, end]: Stretch) =>
      sql`organization_id = ${organizationId} and seq >= ${first} and seq < ${end} ${ofType} ${ofPerson}`
    const parts = isWhole
      ? [{ from, to, entries: to - from }]
      : await partsOf(trx, organizationId, [from, to], filters, (part) => count(trx, matching(part)))
    const total = parts.reduce((sum, { entries }) => sum + entries, 0)
    // A chain has an entry at every position. So if no type and no person is given, the positions of a page can be
    // computed.
    const shown = isWhole
      ? sql`select generate_series(${Math.max(from, to - skipped - perPage)}::bigint, ${to - skipped - 1}::bigint)`
      : placesOfPage(parts, skipped, perPage, matching)
    const { rows } = await sql<{ canonical: string; hash: string }>`
      select canonical, hash from audit_events
      where organization_id = ${organizationId} and seq = any(array(${shown})::bigint[])
      order by seq desc`.execute(trx)
    const events = rows.map(({ canonical, hash }) => ({
      ...(JSON.parse(canonical) as Record<string, unknown>),
      hash,
    }))
    return { events, page, per_page: perPage, total }
  })
}

/** Selects the positions of one page's entries. Skips the parts whose entries are all on other pages. */
function placesOfPage(
  parts: readonly Part[],
  skipped: number,
  perPage: number,
  matching: (stretch: Stretch) => RawBuilder<unknown>,
): RawBuilder<unknown> {
  let before = 0
  let first = 0
  while (first < parts.length && before + (parts[first] as Part).entries <= skipped)
    before += (parts[first++] as Part).entries
  let [last, seen] = [first, before]
  while (last < parts.length && seen < skipped + perPage) seen += (parts[last++] as Part).entries
  const [newest, oldest] = [parts[first], parts[last - 1]]
  if (newest === undefined || oldest === undefined) return sql`select 0`
  return sql`select seq from audit_events where ${matching([oldest.from, newest.to])}
             order by seq desc limit ${perPage} offset ${skipped - before}`
}

async function count(trx: Transaction<Database>, matching: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<{ total: number }>`
    select count(*) as total from audit_events where ${matching}`.execute(trx)
  return rows[0]?.total ?? 0
}

/**
 * Returns the range of positions of the entries at or after `since` and before `until`. Also makes PostgreSQL prefer
 * indexes in later statements of this transaction.
 */
export async function stretchOf(
  trx: Transaction<Database>,
  organizationId: string,
  { since, until }: Pick<AuditFilters, 'since' | 'until'>,
): Promise<Stretch> {
  // For its plans, PostgreSQL assumes that it costs nothing to read an entry's text for a condition. So it would scan a
  // whole chain instead of fetching a few entries. With a low `random_page_cost`, PostgreSQL fetches the entries.
  const { rows } = await sql<{ seq: number | null }>`
    select (select max(seq) from audit_events where organization_id = ${organizationId}) as seq,
           set_config('random_page_cost', '0.01', true)`.execute(trx)
  const end = (rows[0]?.seq ?? 0) + 1
  const from = since === undefined ? 1 : await firstFrom(trx, organizationId, end, since)
  const to = until === undefined ? end : await firstFrom(trx, organizationId, end, until)
  return [from, to]
}

/**
 * Returns the position of the first entry at or after this time. Returns `end` if there is no such entry. Entries get
 * their times under the chain's lock. So the entries are in order of time, unless a clock was set back. In a chain of a
 * million entries, the search reads about twenty entries.
 */
async function firstFrom(
  trx: Transaction<Database>,
  organizationId: string,
  end: number,
  time: Date,
): Promise<number> {
  const { rows } = await firstEntryFrom({ organizationId, end, time: time.toISOString() }).execute(trx)
  return rows[0]?.place ?? end
}
