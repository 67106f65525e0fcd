import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { planSlack } from '../../../src/governance/notifications/plan-slack.ts'
import {
  effectOf,
  go,
  hold,
  holdRule,
  makeLate,
  mark,
  opOf,
  outcomeOf,
  startEngine,
  type Engine,
  type ResolvedCall,
} from '../runs/engine-fixture.ts'
import { connectSlack, link } from './people.ts'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { resolveStep } from '../../../src/calls/runs/resolve.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { removeOldData } from '../../../src/governance/upkeep/retention.ts'
import { listNotifications } from '../../../src/governance/notifications/list.ts'
import { fanOut } from '../../../src/governance/webhooks/fan-out.ts'
import { createWebhook } from '../../../src/governance/webhooks/webhooks.ts'

/** An organization with Slack, and the ids of its members who have linked an account. */
let engine: Engine
let people: Readonly<Record<string, string>>
beforeAll(async () => {
  engine = await startEngine()
  people = await link(engine, {
    owner: 'U0000OWNER',
    admin: 'U0000ADMIN',
    approver: 'U00APPROVER',
    member: 'U000MEMBER',
  })
  await connectSlack(engine)
})
beforeEach(async () => {
  await engine.rules()
  await plan()
  await engine.context.db.deleteFrom('notifications').execute()
})
afterAll(() => engine?.close())

const plan = (context = engine.context) => planNotifications(context, [planSlack])

/** Holds a call, and returns its approval. */
async function held(
  over: object = {},
  by: 'member' | 'admin' = 'member',
  author: 'member' | 'admin' = 'member',
) {
  await engine.rules(holdRule(over))
  return hold(engine, opOf(await engine.run(undefined, {}, by, author)))
}
/** Holds a call, plans its messages, and returns its approval. */
const planned = async (...of: Parameters<typeof held>): Promise<string> => {
  const id = await held(...of)
  await plan()
  return id
}
const deciders = ['owner', 'admin', 'approver']
/** Starts a run with a step for so many items. */
async function runWithItems(item_count: number): Promise<string> {
  await engine.rules(holdRule())
  const runId = await engine.run()
  await engine.context.db.updateTable('run_steps').set({ item_count }).where('run_id', '=', runId).execute()
  return runId
}
/** Loses the answer of a new attempt of the call. */
async function lose(op: ResolvedCall): Promise<void> {
  const attempt = await go(engine, op)
  await mark(engine.context, op, attempt)
  await engine.record(outcomeOf(op, attempt, 'unknown_outcome'))
}

const rows = () => engine.context.db.selectFrom('notifications').selectAll().orderBy('id').execute()
const told = async (event: string) =>
  (await rows()).filter((row) => row.event === event).map(({ recipient }) => recipient)
const ids = (...names: string[]) => names.map((name) => people[name] ?? '')

describe('messages are planned', () => {
  test('for those who can decide, once, whoever plans', async () => {
    const id = await held()
    await Promise.all([plan(), plan(engine.another()), plan()])
    const all = await rows()
    expect(all.map(({ recipient }) => recipient).sort()).toEqual(ids(...deciders).sort())
    const message = { subject: id, event: 'approval.created', state: 'pending', wanted: 1, shown: 0 }
    for (const row of all) expect(row).toMatchObject(message)
    expect(await plan()).toBe(0)
  })

  test('for owners alone where only they can decide', async () => {
    await planned({ approver: 'owner' })
    expect(await told('approval.created')).toEqual(ids('owner'))
  })

  test.each([
    ['requester', 'admin', 'member'],
    ['author of the version that runs', 'member', 'admin'],
  ] as const)('not for the %s, unless they may approve their own', async (_, by, author) => {
    await planned({}, by, author)
    expect((await told('approval.created')).sort()).toEqual(ids('owner', 'approver').sort())
    await engine.settings({ allow_self_approval: true })
    try {
      await planned({}, by, author)
      expect(await told('approval.created')).toContain(people['admin'])
    } finally {
      await engine.settings({ allow_self_approval: false })
    }
  })

  test.each([
    ['approved', (id: string): Promise<void> => engine.vote(id, 'approver'), true],
    ['rejected', (id: string): Promise<void> => engine.vote(id, 'approver', 'reject'), true],
    ['expired', async (id: string): Promise<void> => void (await makeLate(engine.context, id), await expireDue(engine.context)), true],
    ['withdrawn', async (id: string): Promise<void> => {
      const { run_id } = await engine.context.db.selectFrom('approvals').select('run_id').where('id', '=', id).executeTakeFirstOrThrow()
      await finishRun(engine.context, { runId: run_id as string, status: 'cancelled' })
    }, false],
  ] as const)('once it is %s: copies must show it', async (_, end, isTold) => {
    const id = await planned()
    await end(id)
    await plan()
    const created = (await rows()).filter(({ event }) => event === 'approval.created')
    expect(created.map(({ wanted }) => wanted)).toEqual([2, 2, 2])
    expect(await told('approval.decided')).toEqual(isTold ? ids('member') : [])
  }) // prettier-ignore

  test('an approval that ended before it was planned has no message but its requester’s', async () => {
    await engine.vote(await held(), 'approver')
    await plan()
    expect(await rows()).toEqual([expect.objectContaining({ event: 'approval.decided', recipient: people['member'] })])
  }) // prettier-ignore

  test('for an unknown outcome, again for another attempt, and its end is shown', async () => {
    const op = opOf(await engine.run())
    await lose(op)
    await plan()
    const first = await rows()
    expect(first.map(({ recipient }) => recipient).sort()).toEqual(ids(...deciders).sort())
    const { runId } = op.key
    expect(first[0]).toMatchObject({ kind: 'call', subject: `${runId}/s/-1`, event: 'outcome.unknown' })
    const caller = engine.caller('approver')
    await resolveStep(engine.context, { caller, runId, stepId: 's', items: null, outcome: 'retry' })
    await plan()
    expect((await rows()).map(({ wanted }) => wanted)).toEqual([2, 2, 2])
    await lose(op)
    await plan()
    expect(await rows()).toHaveLength(6)
    await finishRun(engine.context, { runId, status: 'cancelled' })
    await plan()
    expect((await rows()).slice(3).map(({ wanted }) => wanted)).toEqual([2, 2, 2])
  })

  test('more than five items share one message for each person', async () => {
    const runId = await runWithItems(7)
    const ops = Array.from({ length: 7 }, (_, item) => opOf(runId, { item }))
    const approvalOf = async (item: number) => (await effectOf(engine.context, ops[item]!))?.approval_id as string
    for (const op of ops.slice(0, 3)) await engine.decide(op)
    await plan()
    for (const op of ops.slice(3, 6)) await engine.decide(op)
    await plan()
    const six = await rows()
    expect(six).toHaveLength(18)
    expect(new Set(six.map((row) => row.message_id)).size).toBe(3)
    const messages = six.filter((row) => row.id === row.message_id)
    expect(messages.map(({ wanted }) => wanted)).toEqual([2, 2, 2])
    for (let item = 0; item < 6; item += 1) await engine.vote(await approvalOf(item), 'approver', 'reject')
    await plan()
    expect(new Set((await rows()).filter(({ event }) => event === 'approval.decided').map((row) => row.message_id)).size).toBe(1)
    // No approval of the first message waits any more, so the next item begins a new message.
    await engine.decide(ops[6]!)
    await plan()
    const last = (await rows()).filter(({ event }) => event === 'approval.created')
    expect(new Set(last.map((row) => row.message_id)).size).toBe(6)
  }) // prettier-ignore

  test('an item after a message that was given up, or went to another account, begins a new one', async () => {
    const runId = await runWithItems(7)
    const hold = async (item: number): Promise<void> => {
      await engine.decide(opOf(runId, { item }))
      await plan()
    }
    const messagesOf = async (name: string) =>
      (await rows()).filter(({ recipient, id, message_id }) => recipient === people[name] && id === message_id).length
    const set = (name: string, values: { state: 'failed' | 'sent'; place?: string }) =>
      engine.context.db.updateTable('notifications').set(values).where('recipient', '=', people[name] ?? '').execute()
    await hold(0)
    await set('owner', { state: 'failed' })
    await set('admin', { state: 'sent', place: JSON.stringify({ account: 'U0000ADMIN', conversation: 'D1', ts: '1' }) })
    await set('approver', { state: 'sent', place: JSON.stringify({ account: 'U000OTHER', conversation: 'D2', ts: '2' }) })
    await hold(1)
    expect([await messagesOf('owner'), await messagesOf('admin'), await messagesOf('approver')]).toEqual([2, 1, 2])
  }) // prettier-ignore

  test('five items have messages of their own', async () => {
    const runId = await runWithItems(5)
    for (let item = 0; item < 5; item += 1) await engine.decide(opOf(runId, { item }))
    await plan()
    expect(new Set((await rows()).map((row) => row.message_id)).size).toBe(15)
  }) // prettier-ignore

  test('not while the setting is off', async () => {
    await engine.settings({ slack_approval_notifications: false })
    try {
      await engine.vote(await held(), 'approver')
      await plan()
      expect(await rows()).toEqual([])
    } finally {
      await engine.settings({ slack_approval_notifications: true })
    }
  })
})

test('retention removes messages about what has ended', async () => {
  const waits = await held()
  const ended = await held()
  await engine.vote(ended, 'approver')
  await plan()
  await engine.context.pool.query(
    `update notifications set created_at = now() - interval '400 days', shown = wanted`,
  )
  await removeOldData({ db: engine.context.db, config: { ...engine.context.config, retentionDays: 30 } })
  expect(new Set((await rows()).map(({ subject }) => subject))).toEqual(new Set([waits]))
})

describe('the list of messages', () => {
  test('shows the state of the message that rows share, and filters', async () => {
    const id = await planned()
    await engine.context.db
      .updateTable('notifications')
      .set({ state: 'failed', attempts: 2, last_error: 'slack_forbidden' })
      .where('recipient', '=', people['owner'] as string)
      .execute()
    const list = (filters: object) =>
      listNotifications(engine.context.db, engine.organizationId, filters, { limit: 2, cursor: null })
    const failed = await list({ state: 'failed', approval_id: id, channel: 'slack' })
    expect(failed.data).toEqual([
      expect.objectContaining({ recipient: people['owner'], attempts: 2, last_error: 'slack_forbidden', sent_at: null }),
    ]) // prettier-ignore
    expect((await list({})).next_cursor).not.toBeNull()
    expect((await list({ channel: 'mail' })).data).toEqual([])
    expect((await listNotifications(engine.context.db, 'org_other', {}, { limit: 2, cursor: null })).data).toEqual([])
  }) // prettier-ignore
})

test('the list of messages also has deliveries to webhooks, in the order of time', async () => {
  const { context, organizationId } = engine
  const webhook = await createWebhook(context, engine.caller('owner'), {
    url: 'https://example.com/hooks',
    events: ['approval.created', 'run.cancelled'],
  })
  const fanned = async () => {
    const id = await planned()
    await fanOut(context)
    return id
  }
  const [first, second] = [await fanned(), await fanned()]
  const list = async (filters: object, limit = 100) => {
    const found = []
    for (let cursor: string | null = null; ;) {
      const page = await listNotifications(context.db, organizationId, filters, { limit, cursor })
      found.push(...page.data)
      cursor = page.next_cursor
      if (cursor === null) return found
    }
  }
  const all = await list({})
  expect(all.map(({ channel, approval_id }) => [channel, approval_id])).toEqual([
    ['webhook', second],
    ...Array.from({ length: 3 }, () => ['slack', second]),
    ['webhook', first],
    ...Array.from({ length: 3 }, () => ['slack', first]),
  ])
  expect(await list({}, 1)).toEqual(all)
  expect(await list({}, 3)).toEqual(all)
  expect(await list({ channel: 'webhook', approval_id: first, state: 'pending' })).toEqual([
    expect.objectContaining({ recipient: webhook.id, event: 'approval.created', attempts: 0, sent_at: null, run_id: null }),
  ])
  expect(await list({ channel: 'webhook', state: 'updated' })).toEqual([])
  await context.pool.query(`update webhook_deliveries set state = 'delivered', next_attempt_at = null, ended_at = now()`)
  expect((await list({ state: 'sent' })).map(({ channel, sent_at }) => [channel, sent_at !== null])).toEqual([
    ['webhook', true],
    ['webhook', true],
  ])
  // In the list, `approval_id` of a message about an unknown outcome names the call. A message about a run has only the
  // run's id.
  const op = opOf(await engine.run())
  await context.pool.query(`update webhooks set events = '{effect.unknown,run.cancelled}'`)
  await engine.rules()
  await lose(op)
  await finishRun(context, { runId: op.key.runId, status: 'cancelled' })
  await fanOut(context)
  const call = `${op.key.runId}/s/-1`
  expect((await list({ channel: 'webhook', approval_id: call })).map(({ event }) => event)).toEqual(['effect.unknown'])
  const ended = (await list({ channel: 'webhook' })).filter(({ event }) => event === 'run.cancelled')
  expect(ended).toEqual([expect.objectContaining({ approval_id: null, run_id: op.key.runId })])
}) // prettier-ignore
