import { describe, expect, test } from '@jest/globals'
import { listNotifications } from '../../../src/governance/notifications/list.ts'
import { finishRun } from '../../../src/governance/runs/end/finish.ts'
import { fanOut } from '../../../src/governance/webhooks/fan-out.ts'
import { createWebhook } from '../../../src/governance/webhooks/webhooks.ts'
import { mark, opOf, outcomeOf, type Engine } from '../runs/engine-fixture.ts'
import { held, plan, usePlanned } from './plan-fixture.ts'

/* The list of messages and deliveries, as an owner reads it. */

let engine: Engine
let people: Readonly<Record<string, string>>
usePlanned((planned) => ({ engine, people } = planned))

describe('the list of messages', () => {
  test('shows the state of the message that rows share, and filters', async () => {
    const id = await held(engine)
    await plan(engine)
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
  const first = await held(engine)
  await plan(engine)
  await fanOut(context)
  const second = await held(engine)
  await plan(engine)
  await fanOut(context)
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
  const verdict = await engine.decide(op)
  if (!verdict.go) throw new Error('it was held')
  await mark(context, op, verdict.attempt)
  await engine.record(outcomeOf(op, verdict.attempt, 'unknown_outcome'))
  await finishRun(context, { runId: op.key.runId, status: 'cancelled' })
  await fanOut(context)
  const call = `${op.key.runId}/s/-1`
  expect((await list({ channel: 'webhook', approval_id: call })).map(({ event }) => event)).toEqual(['effect.unknown'])
  const ended = (await list({ channel: 'webhook' })).filter(({ event }) => event === 'run.cancelled')
  expect(ended).toEqual([expect.objectContaining({ approval_id: null, run_id: op.key.runId })])
}) // prettier-ignore
