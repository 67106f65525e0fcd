import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { measureStoredState } from '../../../src/db/queries/upkeep/measure-state.ts'
import { testContext, withPeople, type TestContext } from '../support.ts'

let running: TestContext
beforeEach(async () => {
  running = await testContext()
})
afterEach(() => running.close())

const valueOf = (text: string, series: string): number | undefined => {
  const line = text.split('\n').find((each) => each.startsWith(`${series} `))
  return line === undefined ? undefined : Number(line.split(' ').at(-1))
}

/** Inserts a pending approval of an agent's call that is `age` seconds old. */
async function hold(organizationId: string, userId: string, age: number): Promise<void> {
  await running.context.pool.query(
    `insert into approvals (id, organization_id, kind, requested_by, params_hash, labels, approver, approvals_needed, status, risk, created_at, tool)
     values ($1, $2, 'agent_call', $3, 'h', '{}', 'admin', 1, 'pending', '{"level": "low", "reasons": []}', now() - make_interval(secs => $4), 'Write')`,
    [newId('approval'), organizationId, userId, age],
  )
}

test('pending approvals are counted by kind and age, and the oldest is told', async () => {
  const { context } = running
  const { identities } = await withPeople(context)
  for (const age of [10, 20, 200, 90_000])
    await hold(identities.organization_id, identities.users.member.user_id, age)
  const text = await context.metrics.text()
  const pending = (age: string) =>
    valueOf(text, `countersign_approvals_pending{kind="agent_call",age="${age}",process="api"}`)
  expect([pending('minute'), pending('hour'), pending('day'), pending('older')]).toEqual([2, 1, undefined, 1])
  expect(
    valueOf(text, 'countersign_approvals_oldest_seconds{kind="agent_call",process="api"}'),
  ).toBeGreaterThan(89_999)
  expect(valueOf(text, 'countersign_database_up{process="api"}')).toBe(1)
  expect(valueOf(text, 'countersign_unknown_outcomes{process="api"}')).toBe(0)
})

test('without the database the state is missing, and not old', async () => {
  const { context } = running
  await context.pool.end()
  Object.assign(context.pool, {
    connect: () => Promise.reject(new Error('away')),
    end: () => Promise.resolve(),
  })
  const text = await context.metrics.text()
  expect(valueOf(text, 'countersign_database_up{process="api"}')).toBe(0)
  expect(text).not.toMatch(
    /^countersign_(open_runs|outbox_messages|unknown_outcomes|approvals_pending)\b.* \d/m,
  )
})

test('the statement reads open runs, waiting approvals and calls by their indexes', async () => {
  const { context } = running
  const { sql, parameters } = measureStoredState(10_000).compile(context.db)
  const client = await context.pool.connect()
  try {
    await client.query('set enable_seqscan = off')
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain ${sql}`, [...parameters])
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
    expect(plan).toContain('runs_open')
    expect(plan).toContain('approvals_pending')
    expect(plan).toMatch(/using effects_\w+ on effects/)
  } finally {
    client.release(true)
  }
})
