import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { planMail } from '../../../src/governance/notifications/plan-mail.ts'
import { planNotifications } from '../../../src/governance/notifications/plan.ts'
import { hold, holdRule, opOf, startEngine, type Engine } from '../runs/engine-fixture.ts'

/* Mails that have not left are removed when their approvals end, so that no list shows them as waiting. */

let engine: Engine
beforeAll(async () => {
  engine = await startEngine({ SMTP_URL: 'smtp://127.0.0.1:1' })
})
afterAll(() => engine?.close())
beforeEach(async () => {
  await engine.rules(holdRule())
  await plan()
  await engine.context.db.deleteFrom('notifications').execute()
  await engine.context.db.updateTable('users').set({ email_verified: true }).execute()
})

const plan = () => planNotifications(engine.context, [planMail(engine.context.config)])
const held = async () => hold(engine, opOf(await engine.run()))
const subjects = async () => {
  await plan()
  const rows = engine.context.db.selectFrom('notifications').select('subject').distinct()
  return (await rows.orderBy('subject').execute()).map(({ subject }) => subject)
}

test.each(['approve', 'reject'] as const)(
  '%s: only the mails of the other approval stay',
  async (decision) => {
    const ids = [await held(), await held()]
    expect(await subjects()).toEqual(ids)
    await engine.vote(ids[0] ?? '', 'approver', decision)
    expect(await subjects()).toEqual([ids[1]])
  },
)

test('a mail that items share stays while one of them waits', async () => {
  const runId = await engine.run()
  const { db } = engine.context
  await db.updateTable('run_steps').set({ item_count: 2 }).where('run_id', '=', runId).execute()
  const ids = [
    await hold(engine, opOf(runId, { item: 0 })),
    await hold(engine, opOf(runId, { item: 1 })),
  ] as const
  expect(await subjects()).toEqual(ids)
  await engine.vote(ids[0], 'approver')
  expect(await subjects()).toEqual(ids)
  await engine.vote(ids[1], 'approver')
  expect(await subjects()).toEqual([])
})

test('a mail that is being sent stays', async () => {
  const id = await held()
  await subjects()
  await engine.context.db
    .updateTable('notifications')
    .set({ intent_at: new Date() })
    .where('event', '=', 'approval.created')
    .execute()
  await engine.vote(id, 'approver')
  await subjects()
  const rows = await engine.context.db.selectFrom('notifications').select('event').distinct().execute()
  expect(rows).toEqual([{ event: 'approval.created' }])
})
