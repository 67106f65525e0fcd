import { sql, type RawBuilder, type Transaction } from 'kysely'
import { countSegmentEntries, chainsToCount } from '../../db/queries/audit.ts'
import type { Database, Db } from '../../db/schema/index.ts'

/*
 * This file stores how many entries each segment of a chain has (docs/decisions/0100). Entries never change, so a
 * stored count stays right.
 */

/** The number of entries of a segment. Segment `n` begins at position `n * segmentLength + 1`. */
export const segmentLength = 2_048

/** A range of positions in a chain. `from` is included, `to` is not included. */
export type Stretch = readonly [from: number, to: number]

/**
 * Selects entries of a chain. With `eventType`, selects entries of this type. With `userId`, selects entries of this
 * person. With both, selects entries of this type and this person. With neither, selects all entries.
 */
export interface Kind {
  readonly eventType?: string | undefined
  readonly userId?: string | undefined
}

/** The event types of decisions. The status of a decision is its verdict. Decisions are also counted by status. */
const decisionTypes = ['agent_call.decided', 'tool_call.decided'] as const
const verdicts = ['allow', 'require_approval', 'deny'] as const

/** One round counts at most `mostSegments` segments, in at most `mostChains` chains. */
const mostChains = 1_000
const mostSegments = 500

/**
 * Counts the entries of segments that have become full since the last round. Several processes may do this at the same
 * time.
 */
export async function countSegments(db: Db): Promise<void> {
  const { rows } = await chainsToCount(segmentLength, mostChains).execute(db)
  // Each turn counts one segment of each chain, so that a long chain does not delay the other chains.
  let left = mostSegments
  for (let turn = 0; left > 0; turn += 1) {
    const due = rows.filter(({ next, end }) => next + turn < end).slice(0, left)
    if (due.length === 0) return
    for (const { organization_id: id, next } of due) await countSegment(db, id, next + turn)
    left -= due.length
  }
}

/** Counts the entries of a segment with one statement. So a segment is counted completely or not at all. */
async function countSegment(db: Db, organizationId: string, segment: number): Promise<void> {
  const [from, to] = placesOf(segment)
  await countSegmentEntries({ organizationId, segment, from, to, decisionTypes }).execute(db)
}

const placesOf = (segment: number): Stretch => [
  segment * segmentLength + 1,
  (segment + 1) * segmentLength + 1,
]

/** A part of a stretch. `entries` is the number of entries of one `Kind` in this part. */
export interface Part {
  readonly from: number
  readonly to: number
  readonly entries: number
}

/**
 * Divides a stretch of the chain into parts. Returns the parts that contain entries of this kind, the newest part
 * first. For whole segments, reads the stored counts in `audit_counts`. The two ends of the stretch may lie outside the
 * counted segments. `count` counts the entries there.
 */
export async function partsOf(
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
    const [from, to] = placesOf(segment)
    return { from, to, entries }
  })
  return [recent, ...whole, old].filter((part) => part.entries > 0)
}

async function partAt([from, to]: Stretch, count: (part: Stretch) => Promise<number>): Promise<Part> {
  return { from, to, entries: from < to ? await count([from, to]) : 0 }
}

/** Counts the decisions on calls in a stretch of the chain. Returns one number for each verdict. */
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

/**
 * Splits a stretch. `inside` has the numbers of the counted segments that lie completely in the stretch. `ends` has the
 * positions of the stretch before and after these segments.
 */
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
  return { inside: [first, end], ends: [[from, placesOf(first)[0]], [placesOf(end)[0], to]] } // prettier-ignore
}
