import { expect, test } from '@jest/globals'
import { sql } from 'kysely'
import { redeliver, listDeliveries, testWebhook } from '../../../src/governance/webhooks/deliveries.ts'
import { mostWaiting } from '../../../src/governance/webhooks/fan-out.ts'
import { createWebhookSender } from '../../../src/governance/webhooks/sender.ts'
import { mostDeliveries } from '../../../src/governance/webhooks/deliver.ts'
import { keptDeliveries, removeOldDeliveries } from '../../../src/governance/webhooks/upkeep.ts'
import {
  changeWebhook,
  deleteWebhook,
  rotateWebhookSecret,
} from '../../../src/governance/webhooks/webhooks.ts'
import { readDrift } from '../../../src/governance/limits/storage-counters.ts'
import type { ScriptedServer } from '../../support/scripted-server.ts'
import { until } from '../../stack/until.ts'
import { addOrganization } from '../../api/fixtures.ts'
import type { Engine } from '../runs/engine-fixture.ts'
import { deliveriesOf, hook, hurry, publish, rowOf, sendAll, useReceiver, verified } from './fixture.ts'

let engine: Engine
let receiver: ScriptedServer
useReceiver((...both) => ([engine, receiver] = both))

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

test('a lease sends a limited number of deliveries, and the next one sends the rest', async () => {
  await hook(engine, `${receiver.url}/hook`)
  for (let n = 0; n < mostDeliveries + 5; n += 1) await publish(engine, 'run.completed', `run_${n}`)
  const sender = createWebhookSender(engine.context)
  await sender.round()
  await until('the lease has ended', async () => {
    const { rows } = await engine.context.pool.query('select from webhooks where leased_until is not null')
    return rows.length === 0
  })
  expect(receiver.arrived).toHaveLength(mostDeliveries)
  await sender.stop()
  await sendAll(engine.context)
  expect(new Set(receiver.arrived.map(({ headers }) => headers['webhook-id'])).size).toBe(mostDeliveries + 5)
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
  await until('three requests hang', async () => hanging.open() === 3)
  await sender.round()
  const { rows } = await engine.context.pool.query(
    'select from webhooks where organization_id = $1 and leased_until is not null',
    [engine.organizationId],
  )
  expect(rows).toHaveLength(3)
  await sender.stop()
  await hanging.close()
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
  // Only the newest ended deliveries are retained.
  await sql`update webhook_deliveries set state = 'failed', next_attempt_at = null, ended_at = now() where state = 'waiting'`.execute(engine.context.db) // prettier-ignore
  await removeOldDeliveries(engine.context.db)
  expect(await deliveriesOf(engine.context, id)).toHaveLength(keptDeliveries)
  const events = await engine.context.db.selectFrom('webhook_events').select('id').execute()
  expect(events).toHaveLength(keptDeliveries)
  expect(await readDrift(engine.context.db, engine.organizationId)).toEqual({ bytes: 0, pending: 0 })
  // After a webhook is deleted, none of its events is left.
  await deleteWebhook(engine.context, owner(), id)
  await removeOldDeliveries(engine.context.db)
  expect(await engine.context.db.selectFrom('webhook_events').select('id').execute()).toEqual([])
  expect(await readDrift(engine.context.db, engine.organizationId)).toEqual({ bytes: 0, pending: 0 })
})

/** A server that accepts requests and never answers. */
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
