import { sql, type RawBuilder, type Transaction } from 'kysely'
import type { Context } from '../context.ts'
import type { Database } from '../db/schema/index.ts'
import { readBounded } from './bounded-read.ts'

/** Filters of the audit listing. */
export interface AuditFilters {
  readonly eventType?: string | undefined
  readonly userId?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

/** Places of a chain: from the first to before the second. */
type Stretch = readonly [from: number, to: number]

/**
 * One page of whole entries, newest first; `page` counts from 1. `since` is included, `until` is not. It reads the text of the
 * entries that it shows and of no other: times are found by halving, people and types by their indexes (docs/decisions/0067).
 */
export async function listAudit(
  context: Context,
  organizationId: string,
  filters: AuditFilters,
  page: number,
  perPage: number,
): Promise<{ events: Record<string, unknown>[]; page: number; per_page: number; total: number }> {
  const skipped = (page - 1) * perPage
  return readBounded(context.db, async (trx) => {
    const [from, to] = await stretchOf(trx, organizationId, filters)
    if (from >= to) return { events: [], page, per_page: perPage, total: 0 }
    const { eventType, userId } = filters
    const isWhole = eventType === undefined && userId === undefined
    const ofPerson = userId === undefined ? sql`` : sql`and user_id = ${userId}`
    // In this form only the index of people has it: reading all entries of a type would be reading the text of each.
    const type = userId === undefined ? sql`event_type` : sql`event_type || ''`
    const ofType = eventType === undefined ? sql`` : sql`and ${type} = ${eventType}`
    const matching = sql`organization_id = ${organizationId} and seq >= ${from} and seq < ${to} ${ofType} ${ofPerson}`
    const total = isWhole ? to - from : await count(trx, matching)
    // A chain has an entry at each of its places, so those of a page can be named.
    const shown = isWhole
      ? sql`select generate_series(${Math.max(from, to - skipped - perPage)}::bigint, ${to - skipped - 1}::bigint)`
      : sql`select seq from audit_events where ${matching} order by seq desc limit ${perPage} offset ${skipped}`
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

async function count(trx: Transaction<Database>, matching: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<{ total: number }>`
    select count(*) as total from audit_events where ${matching}`.execute(trx)
  return rows[0]?.total ?? 0
}

async function stretchOf(
  trx: Transaction<Database>,
  organizationId: string,
  { since, until }: AuditFilters,
): Promise<Stretch> {
  // The planner takes a condition on an entry's text for one that costs nothing, and would rather read a whole chain in its order
  // than a few entries of it here and there: those are made cheap.
  const { rows } = await sql<{ seq: number | null }>`
    select (select max(seq) from audit_events where organization_id = ${organizationId}) as seq,
           set_config('random_page_cost', '0.01', true)`.execute(trx)
  const end = (rows[0]?.seq ?? 0) + 1
  const from = since === undefined ? 1 : await firstFrom(trx, organizationId, end, since)
  const to = until === undefined ? end : await firstFrom(trx, organizationId, end, until)
  return [from, to]
}

/**
 * Place of the first entry at or after this time, or `end`. Entries have their times under the chain's lock, so that their order is
 * that of time but for a clock that was set back. Reads some twenty entries of a million.
 */
async function firstFrom(
  trx: Transaction<Database>,
  organizationId: string,
  end: number,
  time: Date,
): Promise<number> {
  // Timestamps are fixed-width ISO 8601 in UTC: they compare as text.
  const isBefore = sql`coalesce(entry.timestamp < ${time.toISOString()}, false)`
  const middle = sql`(low + high) / 2`
  const { rows } = await sql<{ place: number }>`
    with recursive halves (low, high) as (
      select 1::bigint, ${end}::bigint
      union all
      select case when ${isBefore} then ${middle} + 1 else low end, case when ${isBefore} then high else ${middle} end
      from halves left join lateral (
        select timestamp from audit_events where organization_id = ${organizationId} and seq = ${middle}
      ) as entry on true
      where low < high
    )
    select low as place from halves where low = high`.execute(trx)
  return rows[0]?.place ?? end
}
