import { sql, type RawBuilder, type Transaction } from 'kysely'
import { firstEntryFrom, countSegmentEntries, chainsToCount, namesOf } from '../../db/queries/audit.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import { readBounded } from '../page.ts'

export interface AuditFilters {
  readonly eventType?: string | undefined
  readonly userId?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

export interface AuditPage {
  readonly events: Record<string, unknown>[]
  /** For the people and workflows whose ids are in these entries: `Ann Berg <ann@acme.com>`, or the workflow's name. */
  readonly names: Readonly<Record<string, string>>
  readonly page: number
  readonly per_page: number
  readonly total: number
}

/** Newest first. `since` is inclusive, `until` exclusive. Uses binary search and indexes (docs/decisions/0067). */
export async function listAudit(
  db: Db,
  organizationId: string,
  filters: AuditFilters,
  page: number,
  perPage: number,
): Promise<AuditPage> {
  const skipped = (page - 1) * perPage
  return readBounded(db, async (trx) => {
    const [from, to] = await stretchOf(trx, organizationId, filters)
    if (from >= to) return { events: [], names: {}, page, per_page: perPage, total: 0 }
    const isWhole = filters.eventType === undefined && filters.userId === undefined
    const matching = ([first, end]: Stretch) =>
      sql`organization_id = ${organizationId} and seq >= ${first} and seq < ${end} ${typeIn(filters)}`
    const parts = isWhole
      ? [{ from, to, entries: to - from }]
      : await partsOf(trx, organizationId, [from, to], filters, (part) => count(trx, matching(part)))
    const total = parts.reduce((sum, { entries }) => sum + entries, 0)
    // A chain has an entry at every position, so the positions of a page can be computed.
    const shown = isWhole
      ? sql`select generate_series(${Math.max(from, to - skipped - perPage)}::bigint, ${to - skipped - 1}::bigint)`
      : stretchesOfPage(parts, skipped, perPage, matching)
    const { rows } = await sql<{ canonical: string; hash: string }>`
      select canonical, hash from audit_events
      where organization_id = ${organizationId} and seq = any(array(${shown})::bigint[])
      order by seq desc`.execute(trx)
    return {
      events: eventsOf(rows),
      names: await namesIn(trx, organizationId, rows),
      page,
      per_page: perPage,
      total,
    }
  })
}

export const eventsOf = (rows: readonly { readonly canonical: string; readonly hash: string }[]) =>
  rows.map(({ canonical, hash }) => ({ ...(JSON.parse(canonical) as Record<string, unknown>), hash }))

/** The condition for the type and the person. */
export function typeIn({ eventType, userId }: Kind): RawBuilder<unknown> {
  const ofPerson = userId === undefined ? sql`` : sql`and user_id = ${userId}`
  // Only the index by person (`audit_events_person`) contains the expression `event_type || ''`. With the index by
  // type, PostgreSQL would read the text of every entry of the type.
  const type = userId === undefined ? sql`event_type` : sql`event_type || ''`
  const ofType = eventType === undefined ? sql`` : sql`and ${type} = ${eventType}`
  return sql`${ofType} ${ofPerson}`
}

/** Names are not in the chain, because people change and delete them. */
export async function namesIn(
  trx: Transaction<Database>,
  organizationId: string,
  rows: readonly { readonly canonical: string }[],
): Promise<Record<string, string>> {
  const ids = rows.flatMap(({ canonical }) => canonical.match(/\b(?:usr|wf)_[0-9A-Z]{26}\b/g) ?? [])
  const { rows: named } = await namesOf(organizationId, [...new Set(ids)]).execute(trx)
  return Object.fromEntries(named.map(({ id, name }) => [id, name]))
}

/** Skips the parts whose entries are all on other pages. */
function stretchesOfPage(
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

/** Returns the positions from `since` to before `until`. Later statements of this transaction prefer indexes. */
export async function stretchOf(
  trx: Transaction<Database>,
  organizationId: string,
  { since, until }: Pick<AuditFilters, 'since' | 'until'>,
): Promise<Stretch> {
  // PostgreSQL assumes that reading an entry's text for a condition costs nothing, and would scan a whole chain. With a
  // low `random_page_cost`, it fetches the entries.
  const { rows } = await sql<{ seq: number | null }>`
    select (select max(seq) from audit_events where organization_id = ${organizationId}) as seq,
           set_config('random_page_cost', '0.01', true)`.execute(trx)
  const end = (rows[0]?.seq ?? 0) + 1
  const from = since === undefined ? 1 : await firstFrom(trx, organizationId, end, since)
  const to = until === undefined ? end : await firstFrom(trx, organizationId, end, until)
  return [from, to]
}

/** `end` if none is so late. Times are in order unless a clock was set back. Reads twenty of a million entries. */
async function firstFrom(
  trx: Transaction<Database>,
  organizationId: string,
  end: number,
  time: Date,
): Promise<number> {
  const { rows } = await firstEntryFrom({ organizationId, end, time: time.toISOString() }).execute(trx)
  return rows[0]?.position ?? end
}

/* Counts the entries of each segment (docs/decisions/0100). They never change, so a count stays right. */

/** Segment `n` begins at position `n * segmentLength + 1`. */
export const segmentLength = 2_048

/** `to` is not included. */
export type Stretch = readonly [from: number, to: number]

/** Entries of this type and of this person; of any, if it is absent. */
export interface Kind {
  readonly eventType?: string | undefined
  readonly userId?: string | undefined
}

/** Decisions are also counted by status, which is the verdict. */
const decisionTypes = ['agent_call.decided', 'tool_call.decided'] as const
const verdicts = ['allow', 'require_approval', 'deny'] as const

/** A round counts so many segments, in so many chains. */
const mostChains = 1_000

/** Counts segments that have become full. Several processes may do this at the same time. */
export async function countSegments(db: Db): Promise<void> {
  const { rows } = await chainsToCount(segmentLength, mostChains).execute(db)
  // One segment of each chain in a turn, so that a long chain does not delay the others.
  let left = 500
  for (let turn = 0; left > 0; turn += 1) {
    const due = rows.filter(({ next, end }) => next + turn < end).slice(0, left)
    if (due.length === 0) return
    for (const { organization_id: id, next } of due) await countSegment(db, id, next + turn)
    left -= due.length
  }
}

/** One statement, so a segment is counted completely or not at all. */
async function countSegment(db: Db, organizationId: string, segment: number): Promise<void> {
  const [from, to] = stretchOfSegment(segment)
  await countSegmentEntries({ organizationId, segment, from, to, decisionTypes }).execute(db)
}

const stretchOfSegment = (segment: number): Stretch => [
  segment * segmentLength + 1,
  (segment + 1) * segmentLength + 1,
]

/** `entries` of one `Kind`. */
export interface Part {
  readonly from: number
  readonly to: number
  readonly entries: number
}

/** The newest first. Whole segments have stored counts; `count` counts at the ends, which may lie outside them. */
async function partsOf(
  trx: Transaction<Database>,
  organizationId: string,
  stretch: Stretch,
  { eventType = '', userId = '' }: Kind,
  count: (part: Stretch) => Promise<number>,
): Promise<Part[]> {
  const { inside, ends } = await split(trx, organizationId, stretch)
  const { rows } = await sql<{ segment: number; entries: number }>`
    select segment, entries from audit_counts
    where ${countedIn(organizationId, inside)} and event_type = ${eventType} and user_id = ${userId} and status = ''
    order by segment desc`.execute(trx)
  const [old, recent] = [await partAt(ends[0], count), await partAt(ends[1], count)]
  const whole = rows.map(({ segment, entries }) => {
    const [from, to] = stretchOfSegment(segment)
    return { from, to, entries }
  })
  return [recent, ...whole, old].filter((part) => part.entries > 0)
}

async function partAt([from, to]: Stretch, count: (part: Stretch) => Promise<number>): Promise<Part> {
  return { from, to, entries: from < to ? await count([from, to]) : 0 }
}

export async function countVerdicts(
  trx: Transaction<Database>,
  organizationId: string,
  stretch: Stretch,
): Promise<Record<(typeof verdicts)[number], number>> {
  const { inside, ends } = await split(trx, organizationId, stretch)
  const types = sql`event_type = any(${[...decisionTypes]})`
  const ofEnd = ([from, to]: Stretch) => sql`
    select canonical::json ->> 'status', 1 from audit_events
    where organization_id = ${organizationId} and seq >= ${from} and seq < ${to} and ${types}`
  const { rows } = await sql<{ status: string; entries: number }>`
    select status, sum(entries)::bigint as entries from (
      select status, entries from audit_counts
      where ${countedIn(organizationId, inside)} and ${types} and user_id = '' and status = any(${[...verdicts]})
      union all ${ofEnd(ends[0])} union all ${ofEnd(ends[1])}
    ) as counted (status, entries) group by status`.execute(trx)
  const counts = new Map(rows.map(({ status, entries }) => [status, entries]))
  return {
    allow: counts.get('allow') ?? 0,
    require_approval: counts.get('require_approval') ?? 0,
    deny: counts.get('deny') ?? 0,
  }
}

const countedIn = (organizationId: string, [first, end]: Stretch): RawBuilder<unknown> =>
  sql`organization_id = ${organizationId} and segment >= ${first} and segment < ${end}`

/** `inside` has the numbers of the counted segments in the stretch, `ends` the positions before and after them. */
async function split(
  trx: Transaction<Database>,
  organizationId: string,
  [from, to]: Stretch,
): Promise<{ inside: Stretch; ends: readonly [Stretch, Stretch] }> {
  const { rows } = await sql<{ counted: number }>`
    select coalesce(max(segment) + 1, 0) as counted from audit_counts
    where organization_id = ${organizationId} and event_type = '' and user_id = '' and status = ''`.execute(
    trx,
  )
  const first = Math.ceil((from - 1) / segmentLength)
  const end = Math.min(Math.floor((to - 1) / segmentLength), rows[0]?.counted ?? 0)
  if (end <= first) return { inside: [0, 0], ends: [[from, to], [to, to]] } // prettier-ignore
  return { inside: [first, end], ends: [[from, stretchOfSegment(first)[0]], [stretchOfSegment(end)[0], to]] } // prettier-ignore
}
