import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { removeOldFirings } from '../../../src/governance/triggers/firings.ts'
import { until } from '../../stack/until.ts'
import { startTriggerHome, type TriggerHome } from './fixture.ts'
import {
  deleteServiceAccount,
  createServiceAccount,
} from '../../../src/governance/people/service-accounts.ts'

let home: TriggerHome
beforeAll(async () => {
  home = await startTriggerHome()
})
afterAll(() => home?.close())

const statesOf = async (id: string) => (await home.firingsOf(id)).map(({ state }) => state)
const settled = (id: string, count: number) =>
  until(`${count} firings`, async () => {
    const states = await statesOf(id)
    return states.length === count && !states.includes('waiting')
  })
const runOf = async (id: string, place = -1) => (await home.firingsOf(id)).at(place)?.run_id as string

test('a due time starts one run: for the service account, with untrusted inputs, and whoever armed it is no second person', async () => {
  const id = await home.schedule()
  await home.makeDue(id)
  await settled(id, 1)
  const [firing] = await home.firingsOf(id)
  const run = await home.context.db
    .selectFrom('runs')
    .selectAll()
    .where('id', '=', firing?.run_id as string)
    .executeTakeFirstOrThrow()
  expect(run).toMatchObject({ requested_by: home.account, workflow_version: 1, api_key_id: null })
  expect(run.input_labels).toEqual({ text: [{ label: 'untrusted', from: ['input.text'] }] })
  expect(run.authors.toSorted()).toEqual(
    [home.caller('admin').userId, home.caller('member').userId].toSorted(),
  )
  expect(await home.eventsAbout(id)).toEqual(['trigger.created', 'workflow.execute'])
  const { next_due_at: next } = await home.context.db
    .selectFrom('triggers')
    .select('next_due_at')
    .where('id', '=', id)
    .executeTakeFirstOrThrow()
  expect((next?.getTime() ?? 0) - (firing?.due_at?.getTime() ?? 0)).toBe(3_600_000)
})

test('a second turn for the same due time starts nothing', async () => {
  const id = await home.schedule()
  await home.makeDue(id)
  await settled(id, 1)
  const [{ due_at: due } = { due_at: null }] = await home.firingsOf(id)
  // As if a process that stood still came back with what it had read.
  await home.context.pool.query('update triggers set next_due_at = $2 where id = $1', [id, due])
  await home.context.pool.query(`update lanes set due_at = now() where id = $1`, [id])
  await until('it was planned again', async () => {
    const { rows } = await home.context.pool.query(
      'select next_due_at > now() as later from triggers where id = $1',
      [id],
    )
    return rows[0].later
  })
  expect(await statesOf(id)).toEqual(['started'])
})

test('skip, queue and allow: while the run of an earlier due time goes on', async () => {
  const [skip, queue, allow] = (await Promise.all(
    (['skip', 'queue', 'allow'] as const).map((overlap) => home.schedule({ overlap })),
  )) as [string, string, string]
  for (const id of [skip, queue, allow]) await home.makeDue(id, 10)
  for (const id of [skip, queue, allow]) await settled(id, 1)
  for (const id of [skip, queue, allow]) await home.makeDue(id)
  await settled(skip, 2)
  await settled(allow, 2)
  await until('one waits', async () => (await statesOf(queue)).join() === 'started,waiting')
  expect(await statesOf(skip)).toEqual(['started', 'skipped'])
  expect(await home.eventsAbout(skip)).toEqual(['trigger.created', 'workflow.execute', 'trigger.skipped'])
  expect(await statesOf(allow)).toEqual(['started', 'started'])
  await home.endRun(await runOf(queue, 0))
  await settled(queue, 2)
  expect(await statesOf(queue)).toEqual(['started', 'started'])
})

test('a stopped service: what was missed is audited, and the last due time fires', async () => {
  const id = await home.schedule()
  await home.makeDue(id, 4 * 3_600 + 600)
  await settled(id, 2)
  expect((await home.firingsOf(id)).map(({ state, reason }) => [state, reason])).toEqual([
    ['skipped', 'nobody was there at 4 due times'],
    ['started', null],
  ])
  expect(await home.eventsAbout(id)).toContain('trigger.skipped')
})

test('a freeze skips, and does not count as a failure', async () => {
  const id = await home.schedule()
  await home.frozen(async () => {
    await home.makeDue(id)
    await settled(id, 1)
  })
  expect(await home.firingsOf(id)).toMatchObject([
    { state: 'skipped', reason: 'the organization was frozen' },
  ])
})

test('ten failures in a row pause it, and who armed it is told; resumed, it begins anew', async () => {
  const account = await createServiceAccount(home.context, home.caller('owner'), {
    name: 'short',
    role: 'member',
  })
  const id = await home.schedule({ overlap: 'allow', catch_up: 'all' }, { service_account: account.id })
  await deleteServiceAccount(home.context, home.caller('owner'), account.id)
  await home.makeDue(id, 9 * 3_600 + 600)
  await settled(id, 10)
  expect((await home.firingsOf(id))[0]).toMatchObject({
    state: 'failed',
    reason: 'the service account was deleted: choose another one for the trigger',
  })
  await home.makeDue(id)
  await until('a mail', () => Promise.resolve(home.mails.length === 1))
  const { email } = home.caller('admin')
  expect(home.mails[0]).toMatchObject({ to: email, subject: 'A trigger was paused' })
  expect(home.mails[0]?.text.plain).toContain(`/triggers/${id}`)
  const events = (await home.eventsAbout(id)).filter((each) => each !== 'trigger.failed')
  expect(events).toEqual(['trigger.created', 'trigger.skipped', 'trigger.paused'])
  const resumed = await home.change(id, { paused: false, service_account: home.account })
  expect(resumed).toMatchObject({ paused: false, paused_reason: null })
  await home.makeDue(id)
  await until('it starts again', async () => (await statesOf(id)).at(-1) === 'started')
})

test('once a second factor is required, a trigger that was armed without one starts nothing', async () => {
  const id = await home.schedule()
  const requires = (required: boolean) =>
    home.context.pool.query(`update organizations set settings = settings || $1`, [{ require_mfa: required }])
  await requires(true)
  await home.makeDue(id)
  await settled(id, 1)
  await home.context.pool.query('update triggers set with_factor = true where id = $1', [id])
  await home.makeDue(id)
  await settled(id, 2)
  await requires(false)
  expect((await home.firingsOf(id)).map(({ state, reason }) => [state, reason])).toEqual([
    ['failed', expect.stringContaining('this trigger was armed without one')],
    ['started', null],
  ])
})

test('old firings are removed, and the newest 1,000 of a trigger stay', async () => {
  const id = await home.schedule()
  const { db, pool } = home.context
  await pool.query(
    `insert into trigger_firings (id, organization_id, trigger_id, state, created_at)
     select 'fir_' || lpad(n::text, 26, '0'), $2, $1, case when n = 1 then 'waiting' else 'failed' end,
            now() - case when n > 1010 then interval '31 days' when n = 2 then interval '1 hour' else interval '2 days' end
     from generate_series(1, 1012) as n`,
    [id, home.organizationId],
  )
  await removeOldFirings(db)
  const { rows } = await pool.query<{ count: number; oldest: number[] }>(
    `select count(*)::int as count, (array_agg(right(id, 4)::int order by id))[1:3] as oldest
     from trigger_firings where trigger_id = $1`,
    [id],
  )
  // One waits, and one is so new that its redelivery may still come.
  expect(rows[0]).toEqual({ count: 1_002, oldest: [1, 2, 11] })
})

test('a paused trigger fires nothing, and what waited is dropped', async () => {
  const id = await home.schedule({ overlap: 'queue' })
  await home.makeDue(id, 10)
  await settled(id, 1)
  await home.makeDue(id)
  await until('one waits', async () => (await statesOf(id)).includes('waiting'))
  await home.change(id, { paused: true })
  await until('it is dropped', async () => (await statesOf(id)).join() === 'started,skipped')
})
