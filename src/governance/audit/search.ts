import { sql, type RawBuilder, type Transaction } from 'kysely'
import { decodeTime } from 'ulid'
import { namesOf, peopleOfChain } from '../../db/queries/audit.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import { readBounded } from '../page.ts'
import { eventsOf, namesIn, stretchOf, typeIn, type AuditFilters, type AuditPage } from './list.ts'

/** Entries of which one search reads the text. No index has the words of entries. */
export const mostSearched = 4_000

export interface AuditSearch {
  /** Part of a value of an entry. The case of the letters a to z does not matter. */
  readonly text: string
  /** An earlier search has come to this position. */
  readonly beyond?: number | undefined
}

/** How far a search has come. */
export interface Searched {
  readonly order: 'newest' | 'oldest'
  /** The time of the last entry that was read; null if there is none. */
  readonly until: string | null
  /** Where the next search goes on; null if no entry is left. */
  readonly beyond: number | null
}

/** Entries about an object follow its creation, mostly soon: those of an id are searched from there on. */
/** Its time begins with at most 7, else it is none. */
const idForm = /^[a-z]+_([0-7][0-9A-HJKMNP-TV-Z]{25})$/
/** Milliseconds by which clocks may differ. */
const slack = 60_000

/** The entries of one page, newest first; `total` is their number. */
export async function searchAudit(
  db: Db,
  organizationId: string,
  filters: AuditFilters,
  { text, beyond }: AuditSearch,
  perPage: number,
): Promise<AuditPage & { readonly searched: Searched }> {
  const [, made] = idForm.exec(text) ?? []
  const order = made === undefined ? 'newest' : 'oldest'
  const since = made === undefined ? filters.since : later(filters.since, new Date(decodeTime(made) - slack))
  return readBounded(db, async (trx) => {
    const [first, end] = await stretchOf(trx, organizationId, { ...filters, since })
    const from = order === 'oldest' ? Math.max(first, (beyond ?? 0) + 1) : first
    const to = order === 'newest' ? Math.min(end, beyond ?? end) : end
    const read = sql`
      select seq, canonical, hash from audit_events
      where organization_id = ${organizationId} and seq >= ${from} and seq < ${to} ${typeIn(filters)}
      order by seq ${order === 'newest' ? sql`desc` : sql`asc`} limit ${mostSearched}`
    const { rows } = await sql<Found>`
      select seq, canonical, hash from (${read}) as e where ${hasValue(text)} limit ${perPage + 1}`.execute(
      trx,
    )
    const shown = rows.slice(0, perPage)
    const searched = await reached(trx, organizationId, { order, read, more: rows[perPage - 1], isFull: rows.length > perPage }) // prettier-ignore
    const sorted = shown.toSorted((one, other) => other.seq - one.seq)
    const names = await namesIn(trx, organizationId, sorted)
    return { events: eventsOf(sorted), names, page: 1, per_page: perPage, total: shown.length, searched }
  })
}

interface Found {
  readonly seq: number
  readonly canonical: string
  readonly hash: string
}

const later = (one: Date | undefined, other: Date): Date => (one !== undefined && one > other ? one : other)

/** The names of fields are no values. They are left out only where the whole text has it, because that is slow. */
function hasValue(text: string): RawBuilder<boolean> {
  const part = JSON.stringify(text).slice(1, -1)
  const has = (where: RawBuilder<unknown>) =>
    sql<boolean>`position(lower(${part}::text collate "C") in lower(${where} collate "C")) > 0`
  return sql`(${has(sql`e.canonical`)} and ${has(sql`regexp_replace(e.canonical, '"[a-z_0-9]+":', '', 'g')`)})`
}

async function reached(
  trx: Transaction<Database>,
  organizationId: string,
  { order, read, more, isFull }: {
    readonly order: Searched['order']
    readonly read: RawBuilder<unknown>
    readonly more: Found | undefined
    readonly isFull: boolean
  }, // prettier-ignore
): Promise<Searched> {
  const last = order === 'newest' ? sql`min(seq)` : sql`max(seq)`
  const { rows } = isFull
    ? { rows: [{ seq: more?.seq ?? null, entries: mostSearched }] }
    : await sql<{ seq: number | null; entries: number }>`
        select ${last} as seq, count(*) as entries from (${read}) as e`.execute(trx)
  const { seq = null, entries = 0 } = rows[0] ?? {}
  const at = await sql<{ timestamp: string }>`
    select timestamp from audit_events where organization_id = ${organizationId} and seq = ${seq}`.execute(
    trx,
  )
  return {
    order,
    until: at.rows[0]?.timestamp ?? null,
    beyond: entries < mostSearched ? null : seq,
  }
}

/** Those who have entries. */
const mostPeople = 500

/** By name. */
export async function auditPeople(
  db: Db,
  organizationId: string,
): Promise<{ readonly id: string; readonly name: string }[]> {
  return readBounded(db, async (trx) => {
    const { rows } = await peopleOfChain(organizationId, mostPeople).execute(trx)
    const ids = rows.map(({ id }) => id)
    const { rows: named } = await namesOf(organizationId, ids).execute(trx)
    return named.toSorted((one, other) => one.name.localeCompare(other.name, 'en'))
  })
}
