import { beforeEach, expect, test } from '@jest/globals'
import {
  cancelRerun,
  createRerun,
  listRerunItems,
  matchRuns,
  mostOpenReruns,
  rerunRows,
  type ManyRequest,
} from '../../src/governance/runs/start/reruns.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { changeWorkflow } from '../../src/governance/workflows/workflows.ts'
import { readOwned } from '../../src/governance/page.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import { asAdmin } from '../support/postgres.ts'
import { until } from '../stack/until.ts'
import { mail, read, useTestStack, type FakeReads, type Stack } from './worker-fixture.ts'

let stack: Stack
let reads: FakeReads
useTestStack((...both) => ([stack, reads] = both))

/** The call `outage` fails until the service is there again. */
const report = {
  inputs: { to: { type: 'string', required: true } },
  steps: [
    mail('tell', { params: { to: '{{input.to}}', subject: 's', text: 't' } }),
    read('last', 'outage', { depends_on: ['tell'] }),
  ],
}
const options = { from: 'failed', version: 'same', on_repeat: 'hold' } as const
const sentTo = (to: string) =>
  stack.sink.deliveries.filter(({ recipients }) => recipients.includes(to)).length

let since: string
beforeEach(() => {
  since = new Date().toISOString()
  reads.failing.add('outage')
})

const failed = async (to: string): Promise<string> => {
  const id = await stack.run(report, { to })
  await stack.ended(id)
  return id
}
const request = (over: Partial<ManyRequest> = {}): ManyRequest => ({ filter: { since }, options, ...over })
const asked = async (who: BootstrapName, over: Partial<ManyRequest> = {}) =>
  (await createRerun(stack.context, stack.caller(who), request(over))).id
const shown = (id: string) => readOwned(stack.context, rerunRows, stack.caller('member'), id)
const ended = (id: string) =>
  until('all runs are made again', async () => {
    const { status, counts } = await shown(id)
    return status === 'ended' && counts.open === 0
  })
const items = async (id: string) =>
  (await listRerunItems(stack.context.db, id, { limit: 100, cursor: null })).data

test('after an outage, every failed run goes on from what failed, once', async () => {
  const runs = [await failed('x@b.test'), await failed('y@b.test'), await failed('z@b.test')]
  reads.failing.clear()
  const id = await asked('member')
  await ended(id)
  expect(await shown(id)).toMatchObject({
    status: 'ended',
    reason: null,
    requester_email: stack.caller('member').email,
    counts: { total: 3, started: 3, completed: 3, waiting: 0, refused: 0, cancelled: 0, failed: 0 },
  })
  const made = await items(id)
  expect(made.map(({ run_id }) => run_id)).toEqual(runs)
  for (const { run_id: from, new_run_id: to } of made) {
    expect(await stack.readRun(from)).toMatchObject({ made_again_as: to })
    expect(await stack.readRun(to ?? '')).toMatchObject({ rerun_of: from, status: 'completed' })
  }
  for (const to of ['x', 'y', 'z']) expect(sentTo(`${to}@b.test`)).toBe(1)
  // They were made again, so nothing is left.
  await expect(asked('member')).rejects.toMatchObject({ code: 'validation_error' })
})

test('members mean their own runs, and admins those of all', async () => {
  const run = await failed('own@b.test')
  const matched = (who: BootstrapName, filter = {}) =>
    matchRuns(stack.context, stack.caller(who), { since, ...filter })
  expect(await matched('member')).toEqual({ runs: [run], more: false, waiting: 0 })
  expect(await matched('admin')).toEqual({ runs: [run], more: false, waiting: 0 })
  expect(await matched('admin', { requested_by: stack.caller('admin').userId })).toMatchObject({ runs: [] })
  await expect(matched('member', { requested_by: stack.caller('admin').userId })).rejects.toMatchObject({
    code: 'insufficient_role',
  })
  const { workflow_id: workflow } = await stack.runOf(run)
  expect(await matched('member', { workflow_id: workflow, tool: 'file_read' })).toMatchObject({ runs: [run] })
  expect(await matched('member', { tool: 'mail_send' })).toMatchObject({ runs: [] })
  expect(await matched('member', { status: 'completed' })).toMatchObject({ runs: [] })
  expect(await matched('member', { until: since })).toMatchObject({ runs: [] })
  expect(await matched('member', { since: undefined, run_ids: [run, 'run_none'] })).toMatchObject({
    runs: [run],
  })
  await stack.context.db.updateTable('runs').set({ finished_at: null }).where('id', '=', run).execute()
  expect(await matched('member')).toMatchObject({ runs: [] })
})

test('a run that cannot be made again is refused with the reason, and the others go on after a freeze', async () => {
  const [gone, made] = [await failed('gone@b.test'), await failed('made@b.test')]
  reads.failing.clear()
  let id = ''
  await stack.frozen(async () => {
    id = await asked('member')
    await until('it says why it waits', async () => (await shown(id)).reason === 'the organization is frozen')
    await asAdmin(stack.adminUrl, (admin) =>
      admin.query('update runs set data_removed_at = now() where id = $1', [gone]),
    )
  })
  await ended(id)
  expect(await items(id)).toMatchObject([
    { state: 'refused', reason: expect.stringContaining('the data of the run was removed') },
    { run_id: made, state: 'started', status: 'completed' },
  ])
  expect(await shown(id)).toMatchObject({ reason: null, counts: { refused: 1, completed: 1 } })
})

test('runs that wait in another request are left out and counted', async () => {
  const [first, second] = [await failed('first@b.test'), await failed('second@b.test')]
  const only = { filter: { run_ids: [first] } }
  await stack.frozen(async () => {
    const id = await asked('member', only)
    await expect(asked('admin', only)).rejects.toMatchObject({
      message: 'all runs that match wait in another request already (1): wait for its end, or cancel it',
    })
    const mine = stack.caller('member')
    expect(await matchRuns(stack.context, mine, { since })).toEqual({
      runs: [second],
      more: false,
      waiting: 1,
    })
    expect(await matchRuns(stack.context, mine, { since, status: 'denied' })).toMatchObject({ waiting: 0 })
    expect(await createRerun(stack.context, mine, request())).toMatchObject({ more: false, waiting: 1 })
    await cancelRerun(stack.context, mine, id)
    expect(await matchRuns(stack.context, mine, { since })).toMatchObject({ runs: [first], waiting: 1 })
  })
})

test('two requests that were made at once for the same run make it again once', async () => {
  const [run, other] = [await failed('twice@b.test'), await failed('other@b.test')]
  reads.failing.clear()
  const ids: string[] = []
  await stack.frozen(async () => {
    for (const id of [run, other]) ids.push(await asked('member', { filter: { run_ids: [id] } }))
    await stack.context.db
      .updateTable('rerun_items')
      .set({ run_id: run })
      .where('run_id', '=', other)
      .execute()
  })
  for (const id of ids) await ended(id)
  const all = (await Promise.all(ids.map(items))).flat()
  expect(all.map(({ state }) => state).toSorted()).toEqual(['refused', 'started'])
  expect(all.find(({ state }) => state === 'refused')?.reason).toMatch(/^it was made again already, as `run_/)
})

test('the newest version is that of the request: what is saved later does not count', async () => {
  const run = await failed('version@b.test')
  const { workflow_id: workflow } = await stack.runOf(run)
  const save = (text: string) =>
    changeWorkflow(stack.context, stack.caller('member'), workflow, {
      definition: workflowDefinition.parse({
        ...report,
        steps: [mail('tell', { params: { to: '{{input.to}}', subject: 's', text } }), report.steps[1]],
      }),
    })
  await save('mended')
  reads.failing.clear()
  let id = ''
  await stack.frozen(async () => {
    id = await asked('member', { options: { ...options, version: 'latest' } })
    await save('smuggled')
  })
  await ended(id)
  const [made] = await items(id)
  expect(made).toMatchObject({ version: 2, state: 'started' })
  expect(await stack.runOf(made?.new_run_id ?? '')).toMatchObject({ workflow_version: 2 })
})

test.each([
  ['a provider, which is not renewed', `clock_timestamp() + interval '6 days'`, true],
  ['a password', `clock_timestamp() + interval '1 hour'`, false],
])('a request ends no later than the sign-in that asked for it: with %s', async (_, end, isProviders) => {
  await failed('session@b.test')
  const { userId, organizationId } = stack.caller('member')
  const { rows } = await stack.context.pool.query<{ ends: Date }>(
    `insert into auth_sessions (id, token, user_id, created_at, expires_at, provider_organization, opened_with)
     values ($1, $1, $2, clock_timestamp() - interval '11 hours', ${end}, $3, '${isProviders ? 'provider' : 'password'}')
     returning ${isProviders ? `created_at + interval '12 hours'` : 'expires_at'} as ends`,
    [`session ${isProviders}`, userId, isProviders ? organizationId : null],
  )
  const caller = { ...stack.caller('member'), keyId: null, sessionId: `session ${isProviders}` }
  await stack.frozen(async () => {
    const { id } = await createRerun(stack.context, caller, request())
    expect((await shown(id)).expires_at).toBe(rows[0]?.ends.toISOString())
    await cancelRerun(stack.context, caller, id)
  })
})

test('who may no longer start runs starts none, and who cancels starts no further one', async () => {
  await failed('a@b.test')
  const [member, admin] = [stack.caller('member'), stack.caller('admin')]
  await stack.frozen(async () => {
    const id = await asked('member')
    await expect(cancelRerun(stack.context, stack.caller('viewer'), id)).rejects.toMatchObject({
      code: 'insufficient_role',
    })
    await cancelRerun(stack.context, admin, id)
    await expect(cancelRerun(stack.context, member, id)).rejects.toMatchObject({ code: 'conflict' })
    expect(await shown(id)).toMatchObject({ status: 'ended', reason: 'cancelled', counts: { cancelled: 1 } })
    const second = await asked('member')
    await stack.context.db
      .updateTable('api_keys')
      .set({ revoked_at: new Date() })
      .where('id', '=', member.keyId)
      .execute()
    try {
      await until('it ends', async () => (await shown(second)).status === 'ended')
      expect(await shown(second)).toMatchObject({ reason: expect.stringContaining('the key has ended') })
      expect(await items(second)).toMatchObject([{ state: 'refused', new_run_id: null }])
    } finally {
      await stack.context.db
        .updateTable('api_keys')
        .set({ revoked_at: null })
        .where('id', '=', member.keyId)
        .execute()
    }
  })
})

test('an organization has a few such requests at a time', async () => {
  const names = Array.from({ length: mostOpenReruns + 1 }, (_, n) => `many-${n}@b.test`)
  const runs = await Promise.all(names.map(failed))
  const askFor = (run: string) => asked('member', { filter: { run_ids: [run] } })
  await stack.frozen(async () => {
    const made: string[] = []
    for (const run of runs.slice(1)) made.push(await askFor(run))
    await expect(askFor(runs[0] ?? '')).rejects.toMatchObject({ code: 'conflict' })
    for (const id of made) await cancelRerun(stack.context, stack.caller('member'), id)
  })
})
