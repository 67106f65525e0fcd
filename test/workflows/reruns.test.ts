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
  expect(await matched('member')).toEqual({ runs: [run], more: false })
  expect(await matched('admin')).toEqual({ runs: [run], more: false })
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

test('two requests for the same run make it again once', async () => {
  await failed('twice@b.test')
  reads.failing.clear()
  const ids: string[] = []
  await stack.frozen(async () => {
    ids.push(await asked('member'), await asked('admin'))
  })
  for (const id of ids) await ended(id)
  const all = (await Promise.all(ids.map(items))).flat()
  expect(all.map(({ state }) => state).toSorted()).toEqual(['refused', 'started'])
  expect(all.find(({ state }) => state === 'refused')?.reason).toMatch(/^it was made again already, as `run_/)
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
  await failed('many@b.test')
  await stack.frozen(async () => {
    const made: string[] = []
    for (let n = 0; n < mostOpenReruns; n += 1) made.push(await asked('member'))
    await expect(asked('member')).rejects.toMatchObject({ code: 'conflict' })
    for (const id of made) await cancelRerun(stack.context, stack.caller('member'), id)
  })
})
