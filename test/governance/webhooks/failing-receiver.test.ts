import type { ServerResponse } from 'node:http'
import { describe, expect, test } from '@jest/globals'
import { pauseOf } from '../../../src/governance/webhooks/deliver.ts'
import { removeOldDeliveries } from '../../../src/governance/webhooks/upkeep.ts'
import { changeWebhook } from '../../../src/governance/webhooks/webhooks.ts'
import type { Scripted, ScriptedServer } from '../../support/scripted-server.ts'
import type { Engine } from '../runs/engine-fixture.ts'
import { auditOf } from '../support.ts'
import { deliveriesOf, hook, hurry, publish, rowOf, sendAll, useReceiver, verified } from './fixture.ts'

let engine: Engine
let receiver: ScriptedServer
useReceiver((...both) => ([engine, receiver] = both))

describe('a receiver that fails', () => {
  const cases: readonly (readonly [name: string, answer: () => Scripted, error: RegExp, status: number | null])[] = [
    ['answers 500', () => ({ status: 500 }), /^the answer was 500$/, 500],
    ['answers 404', () => ({ status: 404, body: 'x'.repeat(100_000) }), /^the answer was 404$/, 404],
    ['redirects', () => ({ status: 307, headers: { location: `${receiver.url}/else` } }), /redirects to another place/, null],
    ['closes the connection', () => ({ status: 200, write: cut }), /was lost$/, null],
  ] // prettier-ignore
  const cut = (response: ServerResponse): void => void response.socket?.destroy()

  test.each(cases)('%s: the message is sent again with the same id', async (_, answer, error, status) => {
    const { id, secret } = await hook(engine, `${receiver.url}/hook`)
    receiver.answer = answer
    await publish(engine)
    await sendAll(engine.context)
    const [row] = await deliveriesOf(engine.context, id)
    expect(row).toMatchObject({ state: 'waiting', attempts: 1, last_status: status, last_error: expect.stringMatching(error) }) // prettier-ignore
    const webhook = await rowOf(engine.context, id)
    expect(webhook.failures).toBe(1)
    expect(webhook.due_at?.getTime()).toBeGreaterThan(Date.now())
    receiver.answer = () => ({ status: 200 })
    await hurry(engine.context, id)
    await sendAll(engine.context)
    expect(receiver.arrived).toHaveLength(2)
    const [first, second] = receiver.arrived.map((each) => ({
      id: each.headers['webhook-id'],
      message: verified(secret, each),
    }))
    expect(second).toEqual(first)
    expect(await rowOf(engine.context, id)).toMatchObject({ failures: 0, failing_since: null, due_at: null })
  })

  test('with an answer without an end, its status counts', async () => {
    const { id } = await hook(engine, `${receiver.url}/hook`)
    receiver.answer = () => ({
      status: 200,
      write: (response) => {
        const more = () => {
          while (!response.destroyed && response.write('x'.repeat(16_384)));
          if (!response.destroyed) response.once('drain', more)
        }
        more()
      },
    })
    await publish(engine)
    await sendAll(engine.context)
    expect(await deliveriesOf(engine.context, id)).toMatchObject([{ state: 'delivered', last_status: 200 }])
  })

  test.each([
    ['429', 429],
    ['503', 503],
  ])('is left alone as long as it asks: %s', async (_, status) => {
    const { id } = await hook(engine, `${receiver.url}/hook`)
    receiver.answer = () => ({ status, headers: { 'retry-after': '3000' } })
    await publish(engine)
    await publish(engine, 'run.completed', 'run_2')
    await sendAll(engine.context)
    expect(receiver.arrived).toHaveLength(1)
    const { rows } = await engine.context.pool.query(
      `select extract(epoch from due_at - now())::float8 as seconds from webhooks where id = $1`,
      [id],
    )
    expect(rows[0].seconds).toBeGreaterThan(2_900)
    expect(rows[0].seconds).toBeLessThanOrEqual(3_000)
  })

  test('pauses longer after each failure, up to ten minutes', () => {
    expect([1, 2, 3, 8, 100].map(pauseOf)).toEqual([5, 10, 20, 600, 600])
  })

  test('gets one attempt for each pause, however many messages wait', async () => {
    const { id } = await hook(engine, `${receiver.url}/hook`)
    receiver.answer = () => ({ status: 500 })
    for (const n of [1, 2, 3, 4, 5]) await publish(engine, 'run.completed', `run_${n}`)
    await sendAll(engine.context)
    expect(receiver.arrived).toHaveLength(1)
    // The next attempt is for another message, so one message that is always refused does not block the others.
    await engine.context.pool.query('update webhooks set due_at = now() where id = $1', [id])
    await sendAll(engine.context)
    expect(new Set(receiver.arrived.map(({ headers }) => headers['webhook-id'])).size).toBe(2)
  })

  test('that answers 410 is turned off, with an audit entry', async () => {
    const { id } = await hook(engine, `${receiver.url}/hook`)
    receiver.answer = () => ({ status: 410 })
    await publish(engine)
    await sendAll(engine.context)
    expect(await rowOf(engine.context, id)).toMatchObject({ active: false, disabled_reason: expect.stringContaining('410') }) // prettier-ignore
    expect(await auditOf(engine.context, engine.organizationId, 1)).toMatchObject([
      { event_type: 'webhook.disabled', metadata: { webhook_id: id, host: new URL(receiver.url).host } },
    ])
    await publish(engine)
    await sendAll(engine.context)
    expect(receiver.arrived).toHaveLength(1)
    // Messages that waited are sent when an owner turns the webhook on again.
    receiver.answer = () => ({ status: 200 })
    await changeWebhook(engine.context, engine.caller('owner'), id, { active: true })
    await hurry(engine.context, id)
    await sendAll(engine.context)
    expect(await deliveriesOf(engine.context, id)).toMatchObject([{ state: 'delivered', attempts: 2 }])
    expect(await rowOf(engine.context, id)).toMatchObject({ active: true, disabled_reason: null })
  })

  test('for three days is turned off', async () => {
    const { id } = await hook(engine, `${receiver.url}/hook`)
    receiver.answer = () => ({ status: 500 })
    await publish(engine)
    await engine.context.pool.query(`update webhooks set failing_since = now() - interval '3 days 1 second', failures = 99`) // prettier-ignore
    await sendAll(engine.context)
    const row = await rowOf(engine.context, id)
    expect(row).toMatchObject({ active: false })
    expect(row.disabled_reason).toBe('nothing has arrived for 3 days; the last error: the answer was 500')
  })

  test('is not tried after a day', async () => {
    const { id } = await hook(engine, `${receiver.url}/hook`)
    receiver.answer = () => ({ status: 500 })
    await publish(engine)
    await sendAll(engine.context)
    await engine.context.pool.query(`update webhook_deliveries set give_up_at = now()`)
    await hurry(engine.context, id)
    await removeOldDeliveries(engine.context.db)
    await sendAll(engine.context)
    expect(receiver.arrived).toHaveLength(1)
    expect(await deliveriesOf(engine.context, id)).toMatchObject([
      { state: 'failed', attempts: 1, last_error: 'the answer was 500', next_attempt_at: null },
    ])
  })
})
