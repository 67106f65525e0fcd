import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { redeliver, listDeliveries, testWebhook } from '../../../src/governance/webhooks/deliveries.ts'
import { mostWaiting } from '../../../src/governance/webhooks/fan-out.ts'
import { createWebhookSender } from '../../../src/governance/webhooks/sender.ts'
import { mostOfTurn, pauseOf } from '../../../src/governance/webhooks/turns.ts'
import { keptDeliveries, removeOldDeliveries } from '../../../src/governance/webhooks/upkeep.ts'
import {
  changeWebhook,
  deleteWebhook,
  rotateWebhookSecret,
} from '../../../src/governance/webhooks/webhooks.ts'
import { readDrift } from '../../../src/governance/limits/storage-counters.ts'
import { startScriptedServer, type Scripted, type ScriptedServer } from '../../support/scripted-server.ts'
import { until } from '../../stack/until.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'
import { auditOf } from '../support.ts'
import { deliveriesOf, hook, hurry, publish, rowOf, sendAll, verified } from './fixture.ts'

let engine: Engine
let receiver: ScriptedServer
beforeAll(async () => {
  engine = await startEngine()
  receiver = await startScriptedServer()
})
afterAll(async () => {
  await engine?.close()
  await receiver?.close()
})
beforeEach(async () => {
  const { pool } = engine.context
  await pool.query('delete from webhook_deliveries')
  await pool.query('delete from webhook_events')
  await pool.query('delete from webhooks')
  // Earlier tests changed the rows behind the service's back.
  await engine.context.combiner.run(engine.organizationId, 'org.change', async (tx) => {
    tx.policyChanged()
    tx.append({ eventType: 'workflow.updated', action: 'update', status: 'success', actor: { type: 'system', id: 't' } }) // prettier-ignore
  })
  receiver.arrived.length = 0
  receiver.answer = () => ({ status: 204 })
})

const owner = () => engine.caller('owner')

test('a message arrives once, signed, and the log says so', async () => {
  const { id, secret } = await hook(engine, `${receiver.url}/hook?token=t`)
  await publish(engine)
  await sendAll(engine.context)
  const [arrived, ...more] = receiver.arrived
  if (arrived === undefined) throw new Error('nothing arrived')
  expect(more).toEqual([])
  expect(arrived).toMatchObject({ method: 'POST', path: '/hook?token=t' })
  expect(arrived.headers).toMatchObject({ 'content-type': 'application/json' })
  expect(verified(secret, arrived)).toEqual({
    type: 'run.completed',
    timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
    data: {
      organization_id: engine.organizationId,
      run_id: 'run_1',
      link: expect.stringMatching(/\/console\/runs\/run_1$/),
    },
  })
  const [row] = await deliveriesOf(engine.context, id)
  expect(row).toMatchObject({ state: 'delivered', attempts: 1, last_status: 204, last_error: null })
  expect(row?.event_id).toBe(arrived.headers['webhook-id'])
  expect(await rowOf(engine.context, id)).toMatchObject({ due_at: null, leased_until: null, failures: 0 })
})

test('only chosen events are sent, and only to active webhooks', async () => {
  const chosen = await hook(engine, `${receiver.url}/a`, 'run.failed')
  const off = await hook(engine, `${receiver.url}/b`, 'run.completed')
  await changeWebhook(engine.context, owner(), off.id, { active: false })
  await publish(engine, 'run.completed')
  await publish(engine, 'run.failed')
  await sendAll(engine.context)
  expect(receiver.arrived.map(({ path }) => path)).toEqual(['/a'])
  expect(await deliveriesOf(engine.context, off.id)).toEqual([])
  expect(await deliveriesOf(engine.context, chosen.id)).toHaveLength(1)
  const events = await engine.context.db.selectFrom('webhook_events').selectAll().execute()
  expect(events).toHaveLength(1)
})

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
    // Another message has its turn, so one that is refused for itself holds no other back.
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
    // What waited goes on when an owner turns it on again.
    receiver.answer = () => ({ status: 200 })
    await changeWebhook(engine.context, owner(), id, { active: true })
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

test('a changed address and a new secret count from the next attempt on; the old secret signs for its time', async () => {
  const { id, secret } = await hook(engine, `${receiver.url}/old`)
  receiver.answer = () => ({ status: 500 })
  await publish(engine)
  await sendAll(engine.context)
  await changeWebhook(engine.context, owner(), id, { url: `${receiver.url}/new` })
  const rotated = await rotateWebhookSecret(engine.context, owner(), { id, seconds: 3_600 })
  receiver.answer = () => ({ status: 200 })
  await hurry(engine.context, id)
  await sendAll(engine.context)
  const [, second] = receiver.arrived
  if (second === undefined) throw new Error('nothing arrived')
  expect(second.path).toBe('/new')
  expect(verified(secret, second)).toEqual(verified(rotated.secret, second))
  const again = await rotateWebhookSecret(engine.context, owner(), { id, seconds: 0 })
  await publish(engine)
  await sendAll(engine.context)
  const last = receiver.arrived.at(-1)
  if (last === undefined) throw new Error('nothing arrived')
  expect(() => verified(rotated.secret, last)).toThrow('No matching signature')
  expect(verified(again.secret, last)).toMatchObject({ type: 'run.completed' })
})

test('a test and a redelivery are sent, the latter with the same id', async () => {
  const { id, secret } = await hook(engine, `${receiver.url}/hook`)
  const { event_id } = await testWebhook(engine.context, owner(), id)
  await sendAll(engine.context)
  const page = await listDeliveries(engine.context.db, engine.organizationId, { webhookId: id, state: 'delivered' }, { limit: 5, cursor: null }) // prettier-ignore
  expect(page.data).toMatchObject([{ event_id, event_type: 'webhook.test', attempts: 1 }])
  await redeliver(engine.context, owner(), { webhookId: id, deliveryId: page.data[0]?.id ?? '' })
  await sendAll(engine.context)
  expect(receiver.arrived.map(({ headers }) => headers['webhook-id'])).toEqual([event_id, event_id])
  expect(receiver.arrived.map((each) => verified(secret, each).data)).toEqual([
    { organization_id: engine.organizationId },
    { organization_id: engine.organizationId },
  ])
})

test('a turn takes so many deliveries, and the rest follow', async () => {
  await hook(engine, `${receiver.url}/hook`)
  for (let n = 0; n < mostOfTurn + 5; n += 1) await publish(engine, 'run.completed', `run_${n}`)
  const sender = createWebhookSender(engine.context)
  await sender.round()
  await until('the turn is over', async () => {
    const { rows } = await engine.context.pool.query('select from webhooks where leased_until is not null')
    return rows.length === 0
  })
  expect(receiver.arrived).toHaveLength(mostOfTurn)
  await sender.stop()
  await sendAll(engine.context)
  expect(new Set(receiver.arrived.map(({ headers }) => headers['webhook-id'])).size).toBe(mostOfTurn + 5)
})

test('two senders at once send nothing twice', async () => {
  await hook(engine, `${receiver.url}/a`)
  await hook(engine, `${receiver.url}/b`)
  for (let n = 0; n < 30; n += 1) await publish(engine, 'run.completed', `run_${n}`)
  await Promise.all([sendAll(engine.context), sendAll(engine.another())])
  const all = receiver.arrived.map(({ path, headers }) => `${path} ${headers['webhook-id'] as string}`)
  expect(all).toHaveLength(60)
  expect(new Set(all).size).toBe(60)
})

test('many webhooks that never answer delay no other organization, and take few places', async () => {
  const silent = await startScriptedServer()
  silent.answer = () => ({ status: 200, write: () => {} })
  // The head of the answer is held back too.
  let held = 0
  silent.answer = () => {
    held += 1
    return { status: 200, write: () => {} }
  }
  const hanging = await startHanging()
  for (let n = 0; n < 20; n += 1) await hook(engine, `${hanging.url}/${n}`)
  const { id: elsewhere } = await addOrganization(engine.context)
  const other = {
    ...engine,
    organizationId: elsewhere,
    caller: () => ({ ...owner(), organizationId: elsewhere }),
  }
  await engine.context.db.insertInto('memberships').values({ organization_id: elsewhere, user_id: owner().userId, role: 'owner' }).execute() // prettier-ignore
  await hook(other, `${receiver.url}/honest`)
  await publish(engine)
  await publish(other)
  const sender = createWebhookSender(engine.context)
  await sender.round()
  await until('the honest one has its message', async () => receiver.arrived.length === 1)
  await sender.round()
  expect(hanging.open()).toBe(3)
  expect(held).toBe(0)
  await sender.stop()
  await hanging.close()
  await silent.close()
})

test('what waits is bounded', async () => {
  const { id } = await hook(engine, `${receiver.url}/hook`)
  receiver.answer = () => ({ status: 500 })
  await publish(engine)
  await sendAll(engine.context)
  await sql`
    insert into webhook_events (id, organization_id, type, data, webhook_ids, created_at, message)
    select 'msg_' || n, ${engine.organizationId}, 'run.completed', '{}', '{}', now(), '{}'
    from generate_series(2, ${mostWaiting}::int) as n`.execute(engine.context.db)
  await sql`
    insert into webhook_deliveries (id, organization_id, webhook_id, event_id, state, next_attempt_at, give_up_at, created_at)
    select 'dlv_' || n, ${engine.organizationId}, ${id}, 'msg_' || n, 'waiting', now() + interval '1 hour', now() + interval '1 day', now()
    from generate_series(2, ${mostWaiting}::int) as n`.execute(engine.context.db)
  await publish(engine)
  await sendAll(engine.context)
  const failed = (await deliveriesOf(engine.context, id)).filter(({ state }) => state === 'failed')
  expect(failed).toMatchObject([{ attempts: 0, last_error: '10,000 other deliveries waited' }])
  // Only the newest ended ones are kept.
  await sql`update webhook_deliveries set state = 'failed', next_attempt_at = null, ended_at = now() where state = 'waiting'`.execute(engine.context.db) // prettier-ignore
  await removeOldDeliveries(engine.context.db)
  expect(await deliveriesOf(engine.context, id)).toHaveLength(keptDeliveries)
  const events = await engine.context.db.selectFrom('webhook_events').select('id').execute()
  expect(events).toHaveLength(keptDeliveries)
  expect(await readDrift(engine.context.db, engine.organizationId)).toEqual({ bytes: 0, pending: 0 })
  // A deleted webhook leaves nothing.
  await deleteWebhook(engine.context, owner(), id)
  await removeOldDeliveries(engine.context.db)
  expect(await engine.context.db.selectFrom('webhook_events').select('id').execute()).toEqual([])
  expect(await readDrift(engine.context.db, engine.organizationId)).toEqual({ bytes: 0, pending: 0 })
})

/** A server that takes requests and never answers. */
async function startHanging(): Promise<{ url: string; open: () => number; close(): Promise<void> }> {
  const { createServer } = await import('node:http')
  const waiting = new Set<unknown>()
  const server = createServer((request, response) => {
    waiting.add(response)
    request.on('close', () => waiting.delete(response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}`,
    open: () => waiting.size,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => void server.close(() => resolve()))
    },
  }
}
