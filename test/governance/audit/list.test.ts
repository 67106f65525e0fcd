import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { Kysely, PostgresDialect, sql, type CompiledQuery } from 'kysely'
import type { Context } from '../../../src/governance/context.ts'
import type { Database } from '../../../src/db/schema/index.ts'
import { newestFreeze } from '../../../src/db/queries/audit.ts'
import {
  countSegments,
  countVerdicts,
  segmentLength,
  listAudit,
  type AuditFilters,
} from '../../../src/governance/audit/list.ts'
import { readBounded, pageOf, readCursor } from '../../../src/governance/page.ts'
import { asAdmin } from '../../support/postgres.ts'
import { testContext, type TestContext } from '../support.ts'

const organizationId = 'org_a'
const entries = 20_000
const started = Date.parse('2026-01-01T00:00:00.000Z')
/** The time of entry `seq`: it was appended `seq` seconds after the start. */
const at = (seq: number) => new Date(started + seq * 1_000)
const typeOf = (seq: number) => (seq % 100 === 0 ? 'rule.created' : 'agent.decision')
const personOf = (seq: number) => (seq % 5_000 === 0 ? 'usr_rare' : `usr_${seq % 7}`)

let running: TestContext
let context: Context
const statements: CompiledQuery[] = []

beforeAll(async () => {
  running = await testContext()
  // The text of each entry is as long as an agent's decision. The columns that only the listing reads have the values
  // that the service writes.
  const fields = `'id', 'evt_' || n,
    'event_type', case when n % 100 = 0 then 'rule.created' else 'agent.decision' end,
    'user_id', case when n % 5000 = 0 then 'usr_rare' else 'usr_' || n % 7 end,
    'timestamp', to_char(timestamptz '2026-01-01Z' + n * interval '1 s', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'metadata', jsonb_build_object('name', repeat('x', 500))`
  await insertChain(organizationId, entries, fields)
  await insertChain('org_b', 100, fields)
  await asAdmin(running.adminUrl, (client) => client.query('vacuum analyze audit_events'))
  // The same database, with a record of its queries.
  const db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool: running.context.pool }),
    log: ({ query }) => {
      statements.push(query)
    },
  })
  context = { ...running.context, db }
})
afterAll(() => running?.close())

/** Inserts an organization whose entry `n` has these fields. */
const insertChain = (id: string, count: number, fields: string) =>
  asAdmin(running.adminUrl, async (client) => {
    await client.query('insert into organizations (id, name) values ($1, $1)', [id])
    await client.query('insert into chain_head (organization_id, seq) values ($1, $2)', [id, count])
    await client.query(
      `insert into audit_events (canonical, hash)
       select jsonb_build_object('organization_id', $1::text, 'seq', n, ${fields})::text, repeat('0', 64)
       from generate_series(1, $2) as n`,
      [id, count],
    )
  })
const uncount = (condition: string) =>
  asAdmin(running.adminUrl, (client) => client.query(`delete from audit_counts where ${condition}`))

const all = Array.from({ length: entries }, (_, index) => entries - index)
const listed = async (filters: AuditFilters, page = 1, perPage = 50) => {
  const { events, total } = await listAudit(context.db, organizationId, filters, page, perPage)
  return { seqs: events.map((event) => event['seq']), total }
}
const matching = ({ eventType, userId, since, until }: AuditFilters) =>
  all.filter(
    (seq) =>
      (eventType === undefined || typeOf(seq) === eventType) &&
      (userId === undefined || personOf(seq) === userId) &&
      (since === undefined || at(seq) >= since) &&
      (until === undefined || at(seq) < until),
  )

const types = [undefined, 'agent.decision', 'rule.created', 'nothing.such']
const people = [undefined, 'usr_3', 'usr_rare', 'usr_nobody']
const times: AuditFilters[] = [
  {},
  { since: at(19_990) },
  { until: at(12) },
  { since: at(7_001), until: at(9_000) },
  { since: at(9_000), until: at(7_000) },
  { since: new Date(started - 1_000), until: new Date(started + 10 ** 9) },
  { since: new Date(at(500).getTime() + 1), until: new Date(at(700).getTime() + 999) },
]
const cases = types.flatMap((eventType) =>
  people.flatMap((userId) => times.map((stretch): AuditFilters => ({ eventType, userId, ...stretch }))),
)

describe('the audit listing', () => {
  // The counts can be behind the chain: none, some or all of its full segments are counted.
  test.each(['true', 'segment > 4', 'false'])(
    'returns exactly the matching entries, for any filters, if `%s` is not counted',
    async (condition) => {
      await countSegments(context.db)
      await uncount(condition)
      expect(await listed({}, 1_000_000, 200)).toEqual({ seqs: [], total: entries })
      for (const filters of cases) {
        const seqs = matching(filters)
        const last = Math.max(1, Math.ceil(seqs.length / 50))
        for (const page of new Set([1, Math.ceil(last / 2), last]))
          expect({ filters, page, ...(await listed(filters, page, 50)) }).toEqual({
            filters,
            page,
            seqs: seqs.slice((page - 1) * 50, page * 50),
            total: seqs.length,
          })
      }
    },
  )

  test('reads the text of shown entries only: an index serves every filter', async () => {
    const plansOf = async (filters: AuditFilters): Promise<string[]> => {
      statements.length = 0
      await listed(filters)
      const asked = statements.filter((each) => each.sql.includes('from audit_events'))
      return readBounded(running.context.db, async (trx) => {
        const plans: string[] = []
        await sql`select set_config('random_page_cost', '0.01', true)`.execute(trx)
        for (const { sql: text, parameters } of asked) {
          const filled = text.replaceAll(/\$(\d+)/g, (_, n: string) => literal(parameters[Number(n) - 1]))
          const { rows } = await sql<Record<string, string>>`explain (costs off) ${sql.raw(filled)}`.execute(
            trx,
          )
          plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'))
        }
        return plans
      })
    }
    // If only a few hundred entries match the times, the planner may read each of them.
    const wide = cases.filter(({ since, until }) => matching({ since, until }).length > 1_000)
    for (const filters of wide)
      for (const plan of await plansOf(filters)) {
        expect(plan).not.toMatch(/Seq Scan on audit_events|Bitmap/)
        // A condition without an index would read the text of each entry that the condition rejects.
        expect(plan.split('\n').filter((line) => /Filter: .*canonical/.test(line))).toEqual([])
      }
  })

  test('a plan that is kept for every organization reads the newest freeze from the index by type', async () => {
    const { sql: text } = newestFreeze(organizationId).compile(context.db)
    const indexes = new Set<string | undefined>()
    await asAdmin(running.adminUrl, async (client) => {
      await client.query(`set plan_cache_mode = force_generic_plan; prepare newest as ${text}`)
      const plan = await client.query<{ 'QUERY PLAN': string }>(`explain execute newest('org_a', 'org_a')`)
      for (const row of plan.rows) indexes.add(/using (audit_events_\w+)/.exec(row['QUERY PLAN'])?.[1])
    })
    indexes.delete(undefined)
    expect(indexes).toEqual(new Set(['audit_events_type']))
  })

  test('a statement that takes too long is ended with advice', async () => {
    const slow = readBounded(running.context.db, (trx) => sql`select pg_sleep(60)`.execute(trx), 20)
    await expect(slow).rejects.toMatchObject({
      code: 'unavailable',
      message: 'the list takes too long to read: ask for fewer rows',
    })
  })
})

const literal = (value: unknown): string => {
  if (typeof value === 'number') return String(value)
  const text = Array.isArray(value) ? `{${value.join(',')}}` : String(value)
  return `'${text.replaceAll("'", "''")}'`
}

describe('the verdicts of a stretch', () => {
  const counted = 'org_counted'
  const length = 3 * segmentLength + 500
  const types = ['agent_call.decided', 'tool_call.decided', 'rule.created', 'agent_call.decided']
  const statuses = ['allow', 'deny', 'require_approval', 'allow', 'allow']
  beforeAll(async () => {
    const fields = `'user_id', null, 'event_type', ('{${types.join()}}'::text[])[n % 4 + 1],
      'status', ('{${statuses.join()}}'::text[])[n % 5 + 1]`
    await insertChain(counted, length, fields)
    await insertChain('org_d', segmentLength, fields)
    await uncount('true')
  })

  const countedSegments = async () => {
    const { rows } = await running.context.pool.query(
      `select segment from audit_counts where organization_id = $1 and event_type = '' order by segment`,
      [counted],
    )
    return rows.map(({ segment }) => Number(segment))
  }
  const verdictsMatch = () =>
    fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: length + 1 }), fc.nat(length), async (from, size) => {
        const to = Math.min(from + size, length + 1)
        const plain = { allow: 0, require_approval: 0, deny: 0 }
        for (let seq = from; seq < to; seq += 1)
          if (types[seq % 4]?.endsWith('decided')) plain[statuses[seq % 5] as 'allow'] += 1
        const answer = readBounded(running.context.db, (trx) => countVerdicts(trx, counted, [from, to]))
        expect(await answer).toEqual(plain)
      }),
      {
        numRuns: 20,
        examples: [
          [1, length],
          [segmentLength + 1, segmentLength],
          [segmentLength, 2],
        ],
      },
    )

  test('are those of the entries, counted or not', async () => {
    await verdictsMatch()
    await Promise.all([countSegments(running.context.db), countSegments(running.another().db)])
    // The last segment is not full, so it is not counted.
    expect(await countedSegments()).toEqual([0, 1, 2])
    await verdictsMatch()
    await uncount('segment > 0')
    await verdictsMatch()
    await countSegments(running.context.db)
    expect(await countedSegments()).toEqual([0, 1, 2])
  })
})

describe('pages', () => {
  const same = (text: string): string => text

  test('walked by their cursors return every row once, in order', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 1, max: 10 }), (count, limit) => {
        const rows = Array.from({ length: count }, (_, index) => `id_${String(index).padStart(3, '0')}`)
        const seen: string[] = []
        let cursor: string | null = null
        do {
          const after: string = readCursor(cursor, /^id_\d{3}$/) ?? ''
          const rest = rows.filter((row) => row > after).slice(0, limit + 1)
          const page = pageOf(rest, limit, same, same)
          expect(page.data.length).toBeLessThanOrEqual(limit)
          seen.push(...page.data)
          cursor = page.next_cursor
        } while (cursor !== null)
        expect(seen).toEqual(rows)
      }),
    )
  })

  test('with an invalid cursor are refused before the database is asked', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.base64String()), (text) => {
        try {
          expect(readCursor(text, /^id_\d{3}$/)).toMatch(/^id_/)
        } catch (error) {
          expect(error).toMatchObject({ code: 'validation_error', details: [{ path: 'cursor' }] })
        }
      }),
    )
  })
})
