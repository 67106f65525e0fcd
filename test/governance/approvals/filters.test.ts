import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type { GovernancePatch } from '../../../src/policy/settings.ts'
import type { BootstrapName } from '../../../src/governance/people/bootstrap.ts'
import { listApprovals } from '../../../src/governance/approvals/read.ts'
import { approvalsOf, startEngine, type Engine } from '../runs/engine-fixture.ts'

/* The filter `mine` lists the approvals that the viewer may decide now. */

let engine: Engine
beforeAll(async () => {
  engine = await startEngine()
})
afterAll(() => engine.close())
beforeEach(() =>
  engine.settings({ approval_required_from: 'low', allow_self_approval: false, approval_threshold: 1 }),
)

const isListed = async (id: string, viewer: BootstrapName): Promise<boolean> => {
  const page = { limit: 200, cursor: null }
  const { data } = await listApprovals(engine.context, engine.caller(viewer), { mine: true }, page)
  return data.some((approval) => approval.id === id)
}
const waiting = async (by: BootstrapName): Promise<string> => {
  const runId = await engine.run(undefined, {}, by)
  return (await approvalsOf(engine.context, runId))[0]?.id ?? ''
}
const until = (id: string, interval: string) =>
  sql`update approvals set expires_at = now() + ${interval}::interval where id = ${id}`.execute(
    engine.context.db,
  )

test.each<[string, GovernancePatch, BootstrapName, (id: string) => Promise<unknown>, BootstrapName, boolean]>(
  [
    ['a waiting approval', {}, 'member', async () => {}, 'admin', true],
    ['one that has an hour left', {}, 'member', (id) => until(id, '1 hour'), 'admin', true],
    ['one whose time is over', {}, 'member', (id) => until(id, '-1 second'), 'admin', false],
    ['for a person who may not decide', {}, 'member', async () => {}, 'viewer', false],
    ['the viewer’s own', {}, 'admin', async () => {}, 'admin', false],
    [
      'the viewer’s own, if that is allowed',
      { allow_self_approval: true },
      'admin',
      async () => {},
      'admin',
      true,
    ],
    ['a decided one', {}, 'member', (id) => engine.vote(id, 'owner'), 'admin', false],
    [
      'one that needs a second vote',
      { approval_threshold: 2 },
      'member',
      (id) => engine.vote(id, 'owner'),
      'admin',
      true,
    ],
    [
      'one on which the viewer has voted',
      { approval_threshold: 2 },
      'member',
      (id) => engine.vote(id, 'admin'),
      'admin',
      false,
    ],
  ],
)('%s', async (_, settings, by, change, viewer, listed) => {
  // prettier-ignore
  await engine.settings(settings)
  const id = await waiting(by)
  await change(id)
  expect(await isListed(id, viewer)).toBe(listed)
})

test('a waiting approval shows the number of votes that it needs now', async () => {
  const id = await waiting('member')
  const needed = async () => {
    const page = { limit: 200, cursor: null }
    const { data } = await listApprovals(engine.context, engine.caller('admin'), {}, page)
    return data.find((approval) => approval.id === id)?.approvals_needed
  }
  expect(await needed()).toBe(1)
  await engine.settings({ approval_threshold: 3 })
  expect(await needed()).toBe(3)
  await engine.settings({ approval_threshold: 1 })
  await engine.vote(id, 'admin')
  await engine.settings({ approval_threshold: 3 })
  expect(await needed()).toBe(1)
})
