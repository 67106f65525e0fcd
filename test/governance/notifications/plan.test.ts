import { describe, expect, test } from '@jest/globals'
import { expireDue } from '../../../src/governance/approvals/expire.ts'
import { resolveStep } from '../../../src/governance/runs/effects/resolve.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { removeOldData } from '../../../src/governance/upkeep/retention.ts'
import { effectOf, holdRule, makeLate, mark, opOf, outcomeOf, type Engine } from '../runs/engine-fixture.ts'
import { held, plan, usePlanned } from './plan-fixture.ts'

let engine: Engine
let people: Readonly<Record<string, string>>
usePlanned((planned) => ({ engine, people } = planned))

const rows = () => engine.context.db.selectFrom('notifications').selectAll().orderBy('id').execute()
const told = async (event: string) =>
  (await rows()).filter((row) => row.event === event).map(({ recipient }) => recipient)
const ids = (...names: string[]) => names.map((name) => people[name] ?? '')

describe('messages are planned', () => {
  test('for those who can decide, once, whoever plans', async () => {
    const id = await held(engine)
    await Promise.all([plan(engine), plan(engine, engine.another()), plan(engine)])
    const all = await rows()
    expect(all.map(({ recipient }) => recipient).sort()).toEqual(ids('owner', 'admin', 'approver').sort())
    for (const row of all)
      expect(row).toMatchObject({
        subject: id,
        event: 'approval.created',
        state: 'pending',
        wanted: 1,
        shown: 0,
      })
    expect(await plan(engine)).toBe(0)
  })

  test('for owners alone where only they can decide', async () => {
    await held(engine, { approver: 'owner' })
    await plan(engine)
    expect(await told('approval.created')).toEqual(ids('owner'))
  })

  test.each([
    ['requester', 'admin', 'member'],
    ['author of the version that runs', 'member', 'admin'],
  ] as const)('not for the %s, unless they may approve their own', async (_, by, author) => {
    await held(engine, {}, by, author)
    await plan(engine)
    expect((await told('approval.created')).sort()).toEqual(ids('owner', 'approver').sort())
    await engine.settings({ allow_self_approval: true })
    try {
      await held(engine, {}, by, author)
      await plan(engine)
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
    const id = await held(engine)
    await plan(engine)
    await end(id)
    await plan(engine)
    const created = (await rows()).filter(({ event }) => event === 'approval.created')
    expect(created.map(({ wanted }) => wanted)).toEqual([2, 2, 2])
    expect(await told('approval.decided')).toEqual(isTold ? ids('member') : [])
  }) // prettier-ignore

  test('an approval that ended before it was planned has no message but its requester’s', async () => {
    await engine.vote(await held(engine), 'approver')
    await plan(engine)
    expect(await rows()).toEqual([expect.objectContaining({ event: 'approval.decided', recipient: people['member'] })])
  }) // prettier-ignore

  test('for an unknown outcome, again for another attempt, and its end is shown', async () => {
    const op = opOf(await engine.run())
    const unknown = async (): Promise<void> => {
      const verdict = await engine.decide(op)
      if (!verdict.go) throw new Error('it was held')
      await mark(engine.context, op, verdict.attempt)
      await engine.record(outcomeOf(op, verdict.attempt, 'unknown_outcome'))
    }
    await unknown()
    await plan(engine)
    const first = await rows()
    expect(first.map(({ recipient }) => recipient).sort()).toEqual(ids('owner', 'admin', 'approver').sort())
    expect(first[0]).toMatchObject({
      kind: 'call',
      subject: `${op.key.runId}/s/-1`,
      event: 'outcome.unknown',
    })
    const caller = engine.caller('approver')
    await resolveStep(engine.context, {
      caller,
      runId: op.key.runId,
      stepId: 's',
      items: null,
      outcome: 'retry',
    })
    await plan(engine)
    expect((await rows()).map(({ wanted }) => wanted)).toEqual([2, 2, 2])
    await unknown()
    await plan(engine)
    expect(await rows()).toHaveLength(6)
    await finishRun(engine.context, { runId: op.key.runId, status: 'cancelled' })
    await plan(engine)
    expect((await rows()).slice(3).map(({ wanted }) => wanted)).toEqual([2, 2, 2])
  })

  test('more than five items share one message for each person', async () => {
    await engine.rules(holdRule())
    const runId = await engine.run()
    await engine.context.db.updateTable('run_steps').set({ item_count: 7 }).where('run_id', '=', runId).execute()
    const ops = Array.from({ length: 7 }, (_, item) => opOf(runId, { item }))
    const approvalOf = async (item: number) => (await effectOf(engine.context, ops[item]!))?.approval_id as string
    for (const op of ops.slice(0, 3)) await engine.decide(op)
    await plan(engine)
    for (const op of ops.slice(3, 6)) await engine.decide(op)
    await plan(engine)
    const six = await rows()
    expect(six).toHaveLength(18)
    expect(new Set(six.map((row) => row.message_id)).size).toBe(3)
    const messages = six.filter((row) => row.id === row.message_id)
    expect(messages.map(({ wanted }) => wanted)).toEqual([2, 2, 2])
    for (let item = 0; item < 6; item += 1) await engine.vote(await approvalOf(item), 'approver', 'reject')
    await plan(engine)
    expect(new Set((await rows()).filter(({ event }) => event === 'approval.decided').map((row) => row.message_id)).size).toBe(1)
    // No approval of the first message waits any more, so the next item begins a new message.
    await engine.decide(ops[6]!)
    await plan(engine)
    const last = (await rows()).filter(({ event }) => event === 'approval.created')
    expect(new Set(last.map((row) => row.message_id)).size).toBe(6)
  }) // prettier-ignore

  test('an item after a message that was given up, or went to another account, begins a new one', async () => {
    await engine.rules(holdRule())
    const runId = await engine.run()
    await engine.context.db.updateTable('run_steps').set({ item_count: 7 }).where('run_id', '=', runId).execute()
    const hold = async (item: number): Promise<void> => {
      await engine.decide(opOf(runId, { item }))
      await plan(engine)
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
    await engine.rules(holdRule())
    const runId = await engine.run()
    await engine.context.db.updateTable('run_steps').set({ item_count: 5 }).where('run_id', '=', runId).execute()
    for (let item = 0; item < 5; item += 1) await engine.decide(opOf(runId, { item }))
    await plan(engine)
    expect(new Set((await rows()).map((row) => row.message_id)).size).toBe(15)
  }) // prettier-ignore

  test('not while the setting is off', async () => {
    await engine.settings({ slack_approval_notifications: false })
    try {
      await engine.vote(await held(engine), 'approver')
      await plan(engine)
      expect(await rows()).toEqual([])
    } finally {
      await engine.settings({ slack_approval_notifications: true })
    }
  })
})

test('retention removes messages about what has ended', async () => {
  const waits = await held(engine)
  const ended = await held(engine)
  await engine.vote(ended, 'approver')
  await plan(engine)
  await engine.context.pool.query(
    `update notifications set created_at = now() - interval '400 days', shown = wanted`,
  )
  await removeOldData({ db: engine.context.db, config: { ...engine.context.config, retentionDays: 30 } })
  expect(new Set((await rows()).map(({ subject }) => subject))).toEqual(new Set([waits]))
})
