import { beforeAll, describe, expect, test, afterAll } from '@jest/globals'
import fc from 'fast-check'
import { Kysely, PostgresDialect, type CompiledQuery } from 'kysely'
import { authorize } from '../../../src/calls/agents/ask.ts'
import { observe } from '../../../src/governance/agents/observe.ts'
import type { SessionRecord } from '../../../src/calls/agents/ledger.ts'
import { addLabels } from '../../../src/calls/agents/sessions.ts'
import { authenticate } from '../../../src/governance/access/identity.ts'
import { createRule } from '../../governance/rules/free-changes.ts'
import { labelRuleInput } from '../../../src/governance/rules/rule-kinds.ts'
import { useEngine, type Engine } from '../../governance/runs/engine-fixture.ts'
import type { Database } from '../../../src/db/schema/index.ts'
import { listSessions } from '../../../src/governance/agents/read.ts'
import { asAdmin } from '../../support/postgres.ts'
import { testContext, type TestContext } from '../../governance/support.ts'

let engine: Engine
useEngine((started) => (engine = started))

let identity: NonNullable<Awaited<ReturnType<typeof authenticate>>>
beforeAll(async () => {
  identity = (await authenticate(engine.context.keys, `Bearer ${engine.keyOf('member')}`)) as typeof identity
  const two = labelRuleInput.parse({ name: 'two', tools: ['Write'], add_labels: ['one', 'two'] })
  await createRule(engine.context, 'label_rule', engine.caller('admin'), two)
})

const agent = { name: 'tester', kind: 'hook' }
const ask = (sessionId: string, tool: string, over: object = {}) =>
  authorize(
    engine.context,
    { identity, ip: null },
    {
      agent,
      session_id: sessionId,
      tool_name: tool,
      tool_input: {},
      ...over,
    },
  )

/** Stores `count` labels for the session. */
const give = (sessionId: string, count: number) =>
  engine.context.pool.query(
    `update agent_sessions set labels = array(select 'l' || i from generate_series(1, $2::int) as i) where session_id = $1`,
    [sessionId, count],
  )
async function labelsOf(sessionId: string): Promise<string[]> {
  const { rows } = await engine.context.pool.query<{ labels: string[] }>(
    'select labels from agent_sessions where session_id = $1',
    [sessionId],
  )
  return rows[0]?.labels ?? []
}

describe('labels of an agent session', () => {
  test('are 1,000 at most: the call that would bring more is denied, and adds none', async () => {
    await ask('full', 'TodoWrite')
    await give('full', 999)
    expect(await ask('full', 'Write')).toMatchObject({
      decision: 'deny',
      reason: 'too many labels',
      explanation: 'With this call the session would carry more than 1,000 labels: start a new session.',
    })
    expect(await labelsOf('full')).toHaveLength(999)
    expect(await ask('full', 'TodoWrite')).toMatchObject({ decision: 'allow' })
    await give('full', 998)
    expect(await ask('full', 'Write')).toMatchObject({ decision: 'allow' })
    expect(await labelsOf('full')).toHaveLength(1_000)
    expect(await ask('full', 'Write')).toMatchObject({ decision: 'allow' })
  })

  test('above the limit deny every call', async () => {
    await ask('over', 'TodoWrite')
    await give('over', 1_001)
    expect(await ask('over', 'TodoWrite')).toMatchObject({ decision: 'deny', reason: 'too many labels' })
  })

  test('of a call without a decision are added; then every call is denied', async () => {
    await ask('seen', 'TodoWrite')
    await give('seen', 1_000)
    const finished = { session_id: 'seen', tool_name: 'Write', tool_input: {} }
    await observe(engine.context, { identity, ip: null }, finished)
    expect(await labelsOf('seen')).toHaveLength(1_002)
    expect(await ask('seen', 'TodoWrite')).toMatchObject({ decision: 'deny', reason: 'too many labels' })
    expect(await labelsOf('seen')).toHaveLength(1_002)
  })

  test('are stored with the tools that brought them', () => {
    const label = fc.constantFrom<string>('a', 'b', 'c', 'd')
    const additions = fc.array(fc.tuple(fc.array(label), fc.constantFrom('Read', 'Bash')))
    fc.assert(
      fc.property(additions, (all) => {
        const session = {
          labels: [],
          label_sources: [],
          unknown_tools: [],
          written: [],
          label_bytes: 0,
        } as unknown as SessionRecord
        let stored = 0
        for (const [labels, tool] of all)
          addLabels({ stores: (bytes) => (stored += bytes) }, session, labels, tool)
        const names = [...new Set(all.flatMap(([labels]) => labels))].sort()
        expect(session.labels).toEqual(names)
        expect(session.label_bytes).toBe(stored)
        const broughtBy = (name: string) =>
          all.filter(([labels]) => labels.includes(name)).map(([, tool]) => tool)
        expect(session.label_sources).toEqual(
          names.map((name) => ({ label: name, from: [...new Set(broughtBy(name))] })),
        )
      }),
    )
  })
})

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

const seen = { organizationIds: ['org_a', 'org_b'], own: { userId: 'usr_a', organizationIds: [] } }

test('a page of several organizations has their newest sessions, and reads none of other organizations', async () => {
  const list = (cursor: string | null) => listSessions(db, seen, { status: 'live' }, { limit: 50, cursor })
  const first = await list(null)
  const second = await list(first.next_cursor)
  expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(
    Array.from({ length: 100 }, (_, index) => idOf(8_000 - index)),
  )
  const rare = { session_id: 's7', user_id: 'usr_none' }
  for (const filters of [{ session_id: 's8' }, { user_id: 'usr_none' }, rare])
    await listSessions(db, seen, filters, { limit: 50, cursor: null })
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
