import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { Kysely, PostgresDialect, type CompiledQuery } from 'kysely'
import type { Database } from '../../../src/db/schema/index.ts'
import { listSessions } from '../../../src/governance/agents/read.ts'
import { asAdmin } from '../../support/postgres.ts'
import { testContext, type TestContext } from '../support.ts'

const strangers = 20_000

let running: TestContext
let db: Kysely<Database>
const statements: CompiledQuery[] = []
beforeAll(async () => {
  running = await testContext()
  db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool: running.context.pool }),
    log: ({ query }) => {
      statements.push(query)
    },
  })
  await asAdmin(running.adminUrl, async (client) => {
    await client.query(
      `insert into organizations (id, name) values ('org_a', 'a'), ('org_b', 'b'), ('org_c', 'c')`,
    )
    await client.query(
      `insert into users (id, name, email, email_verified) values ('usr_a', 'a', 'a@countersign.test', true)`,
    )
    // The sessions of strangers are the newest ones.
    await client.query(
      `insert into agent_sessions (id, organization_id, user_id, session_id, run_id, agent_name, agent_kind, status,
         labels, started_at, last_seen_at)
       select 'ses_' || lpad(n::text, 26, '0'),
         case when n <= 8000 then case when n % 2 = 0 then 'org_a' else 'org_b' end else 'org_c' end,
         'usr_a', 's' || n, 'run_' || n, 'a', 'k', 'live', '{}', now(), now()
       from generate_series(1, $1) as n`,
      [strangers],
    )
    await client.query('vacuum analyze agent_sessions')
  })
})
afterAll(() => running?.close())

const idOf = (n: number): string => `ses_${String(n).padStart(26, '0')}`

test('a page of several organizations has their newest sessions, and reads none of other organizations', async () => {
  const list = (cursor: string | null) =>
    listSessions(db, ['org_a', 'org_b'], { status: 'live' }, { limit: 50, cursor })
  const first = await list(null)
  const second = await list(first.next_cursor)
  expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(
    Array.from({ length: 100 }, (_, index) => idOf(8_000 - index)),
  )
  const rare = { session_id: 's7', user_id: 'usr_none' }
  for (const filters of [{ session_id: 's8' }, { user_id: 'usr_none' }, rare])
    await listSessions(db, ['org_a', 'org_b'], filters, { limit: 50, cursor: null })
  for (const { sql, parameters } of statements.filter((each) => each.sql.includes('agent_sessions')))
    await asAdmin(running.adminUrl, async (client) => {
      await client.query('set enable_seqscan = off; set enable_bitmapscan = off')
      const { rows } = await client.query<{ 'QUERY PLAN': string }>(
        `explain (analyze, costs off, timing off) ${sql}`,
        [...parameters],
      )
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
      const removed = [...plan.matchAll(/Rows Removed by Filter: (\d+)/g)].map(([, count]) => Number(count))
      expect([plan, Math.max(0, ...removed) < 1_000]).toEqual([plan, true])
    })
})
