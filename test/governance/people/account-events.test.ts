import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { accountEvents } from '../../../src/contract/audit-events.ts'
import type { BootstrapIdentities } from '../../../src/governance/people/bootstrap.ts'
import { forgetEndedSignIns, recordAccountEvents } from '../../../src/governance/people/account-events.ts'
import { testContext, withPeople, type TestContext } from '../support.ts'

let running: TestContext
let identities: BootstrapIdentities
beforeAll(async () => {
  running = await testContext()
  identities = (await withPeople(running.context)).identities
})
afterAll(() => running.close())
beforeEach(() => recordAccountEvents(running.context))

const ask = (sql: string, values: unknown[] = []) => running.context.pool.query(sql, values)
const session = (id: string, seconds = 60) =>
  ask(
    `insert into auth_sessions (id, token, user_id, expires_at, ip_address)
     values ($1, $1, $2, now() + make_interval(secs => $3), '192.0.2.1')`,
    [id, identities.users.member.user_id, seconds],
  )
async function newestEvents(count: number): Promise<Record<string, unknown>[]> {
  const { rows } = await ask(
    'select canonical::jsonb as entry from audit_events where organization_id = $1 order by seq desc limit $2',
    [identities.organization_id, count],
  )
  return rows.map((row: { entry: Record<string, unknown> }) => row.entry).reverse()
}

test('an account event is appended once, however many processes look', async () => {
  await ask('update users set two_factor_enabled = true where id = $1', [identities.users.member.user_id])
  await session('one')
  const { rows } = await ask('select seq::int from chain_head')
  const others = [running.context, running.another(), running.another()]
  await Promise.all(others.map((context) => recordAccountEvents(context)))
  const after = await ask('select seq::int from chain_head')
  expect(after.rows[0].seq - rows[0].seq).toBe(2)
  expect(await newestEvents(2)).toMatchObject([
    { event_type: 'mfa.enabled', user_id: identities.users.member.user_id, ip_address: null },
    { event_type: 'session.started', ip_address: '192.0.2.1', metadata: { session_id: 'one' } },
  ])
  expect((await ask('select 1 from account_events')).rowCount).toBe(0)
})

test('a change that is rolled back leaves no event', async () => {
  const client = await running.context.pool.connect()
  await client.query('begin')
  await client.query('update users set two_factor_enabled = false where id = $1', [
    identities.users.member.user_id,
  ])
  await client.query('rollback')
  client.release()
  expect((await ask('select 1 from account_events')).rowCount).toBe(0)
})

test('a session that ends unused is no sign-in; a used one has an end', async () => {
  await session('brief')
  await ask(`delete from auth_sessions where id = 'brief'`)
  expect((await ask('select 1 from account_events')).rowCount).toBe(0)
  await session('long')
  await recordAccountEvents(running.context)
  await ask(`delete from auth_sessions where id = 'long'`)
  await recordAccountEvents(running.context)
  expect(await newestEvents(1)).toMatchObject([
    { event_type: 'session.ended', metadata: { session_id: 'long' } },
  ])
})

test('expired sessions are deleted, live ones stay', async () => {
  await session('old', -4_000)
  await session('live')
  await forgetEndedSignIns(running.context.db)
  const { rows } = await ask(`select id from auth_sessions where id in ('old', 'live')`)
  expect(rows).toEqual([{ id: 'live' }])
})

test('an event of another type stays in the table, and the others are appended', async () => {
  const { user_id } = identities.users.admin
  const insert = `insert into account_events (organization_id, user_id, type) values ($1, $2, $3)`
  for (const type of [...Array<string>(300).fill('approval.granted'), 'mfa.enabled'])
    await ask(insert, [identities.organization_id, user_id, type])
  await recordAccountEvents(running.context)
  expect(await newestEvents(1)).toMatchObject([{ event_type: 'mfa.enabled', user_id }])
  expect(await newestEvents(2)).not.toMatchObject([{ event_type: 'approval.granted' }, {}])
  const { rows } = await ask(
    'with gone as (delete from account_events returning type) select distinct type from gone',
  )
  expect(rows).toEqual([{ type: 'approval.granted' }])
})

test('every event that the triggers record is a known account event', async () => {
  const { rows } = await ask(
    `select distinct kind[1] as kind from pg_proc, regexp_matches(prosrc, '''([a-z_]+\\.[a-z_]+)''', 'g') as kind
     where prosrc like '%account_event%'`,
  )
  const kinds = rows.map((row: { kind: string }) => row.kind)
  expect(kinds).toEqual(expect.arrayContaining(['session.started', 'mfa.enabled']))
  expect(kinds.filter((kind) => !accountEvents.some((each) => each === kind))).toEqual([])
})
