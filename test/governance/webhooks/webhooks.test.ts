import type { ServerResponse } from 'node:http'
import type { LookupFunction } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { sql } from 'kysely'
import type { ChainTx } from '../../../src/governance/audit/chain-tx.ts'
import type { WebhookEvent } from '../../../src/contract/webhook-events.ts'
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  rotateWebhookSecret,
  type NewWebhook,
} from '../../../src/governance/webhooks/webhooks.ts'
import {
  mostDeliveries,
  sendMessage,
  signatureOf,
  webhookSender,
} from '../../../src/governance/webhooks/deliver.ts'
import {
  startScriptedServer,
  type Arrived,
  type Scripted,
  type ScriptedServer,
} from '../../support/scripted-server.ts'
import { until } from '../../stack/until.ts'
import { startEngine, type Engine } from '../runs/engine-fixture.ts'
import { listDeliveries, redeliver, testWebhook } from '../../../src/governance/webhooks/deliveries.ts'
import { fanOut, mostWaiting } from '../../../src/governance/webhooks/fan-out.ts'
import { takeLanes } from '../../../src/db/queries/lanes.ts'
import { startRunner } from '../../../src/governance/lanes/runner.ts'
import { keptDeliveries, removeOldDeliveries } from '../../../src/governance/webhooks/upkeep.ts'
import { readDrift } from '../../../src/governance/limits/storage-counters.ts'
import { addOrganization } from '../../api/fixtures.ts'
import { auditOf } from '../support.ts'
import { loopbackHosts, type NamedHost } from '../../../src/shared/outgoing/hosts.ts'
import { createOutgoing, type Outgoing } from '../../../src/shared/outgoing/outgoing.ts'
import { sendAll, verified } from './fixture.ts'

let engine: Engine
let receiver: ScriptedServer
beforeAll(async () => {
  engine = await startEngine()
  receiver = await startScriptedServer()
})
afterAll(() => Promise.all([engine?.close(), receiver?.close()]))
const owner = () => engine.caller('owner')

/** Appends an entry, with other changes. */
const change = (organizationId: string, work: (tx: ChainTx) => void): Promise<void> =>
  engine.context.combiner.run(organizationId, 'org.change', async (tx) => {
    work(tx)
    const actor = { type: 'system', id: 't' } as const
    tx.append({ eventType: 'workflow.updated', action: 'update', status: 'success', actor })
  })
/** Publishes an event of one run, in the same way as `finishRun`. */
const publish = (type: WebhookEvent = 'run.completed', run_id = 'run_1', by = engine.organizationId) =>
  change(by, (tx) => tx.publish(type, { run_id }))
const publishMany = async (count: number): Promise<void> => {
  for (let n = 0; n < count; n += 1) await publish('run.completed', `run_${n}`)
}

const hook = (path = '/hook', event: WebhookEvent = 'run.completed', by = owner()): Promise<NewWebhook> =>
  createWebhook(engine.context, by, { url: new URL(path, receiver.url).href, events: [event] })
/** Makes a webhook, and answers its messages with this status. */
const answered = (status: number): Promise<NewWebhook> => {
  receiver.answer = () => ({ status })
  return hook()
}

const deliveriesOf = (id: string) =>
  engine.context.db
    .selectFrom('webhook_deliveries')
    .selectAll()
    .where('webhook_id', '=', id)
    .orderBy('id')
    .execute()
const rowOf = (id: string) =>
  engine.context.db.selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
const eventIds = () => engine.context.db.selectFrom('webhook_events').select('id').execute()

/** Makes everything that waits for this webhook due now. */
async function hurry(id: string): Promise<void> {
  const { pool } = engine.context
  await pool.query(`update webhook_deliveries set next_attempt_at = now() where webhook_id = $1 and state = 'waiting'`, [id]) // prettier-ignore
  await pool.query(`update lanes set due_at = now(), paused_until = null where id = $1`, [id])
}
/** `seconds`: until its next turn; null if nothing waits. */
async function laneOf(id: string) {
  const { rows } = await engine.context.pool.query(
    `select turn, failures, case when due_at < 'infinity'
       then extract(epoch from greatest(due_at, paused_until) - now())::float8 end as seconds
     from lanes where kind = 'webhook' and id = $1`,
    [id],
  )
  return rows[0]
}
/** The webhooks of the organization for which some process sends. */
const working = async (): Promise<number> => {
  const { rows } = await engine.context.pool.query(
    `select from lanes where kind = 'webhook' and organization_id = $1 and turn is not null`,
    [engine.organizationId],
  )
  return rows.length
}
/** Writes the deliveries, and looks once for what is due. */
async function runOnce() {
  await fanOut(engine.context)
  return startRunner(engine.context, [webhookSender(engine.context)], 3_600_000)
}
async function sendAgain(id: string): Promise<void> {
  await hurry(id)
  await sendAll(engine.context)
}
/** Publishes an event, and sends it. */
const send = async (): Promise<void> => {
  await publish()
  await sendAll(engine.context)
}
/** Leaves an answer open for ever. */
const never = () => {}
/** The message that arrived as the number `index`. */
function arrivedAt(index: number): Arrived {
  const found = receiver.arrived.at(index)
  if (found === undefined) throw new Error('nothing arrived')
  return found
}
const messageIds = () => receiver.arrived.map(({ headers }) => headers['webhook-id'])

describe('the sender', () => {
  beforeEach(async () => {
    for (const table of ['webhook_deliveries', 'webhook_events', 'webhooks'])
      await engine.context.pool.query(`delete from ${table}`)
    // The rows were changed directly, so the service must load them again.
    await change(engine.organizationId, (tx) => tx.policyChanged())
    receiver.arrived.length = 0
    receiver.answer = () => ({ status: 204 })
  })

  test('a message arrives once, signed, and the log says so', async () => {
    const { id, secret } = await hook('/hook?token=t')
    await send()
    expect(receiver.arrived).toHaveLength(1)
    const arrived = arrivedAt(0)
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
    const [row] = await deliveriesOf(id)
    expect(row).toMatchObject({ state: 'delivered', attempts: 1, last_status: 204, last_error: null })
    expect(row?.event_id).toBe(arrived.headers['webhook-id'])
    expect(await laneOf(id)).toMatchObject({ seconds: null, turn: null, failures: 0 })
  })

  test('only chosen events are sent, and only to active webhooks', async () => {
    const chosen = await hook('/a', 'run.failed')
    const off = await hook('/b', 'run.completed')
    await changeWebhook(engine.context, owner(), off.id, { active: false })
    for (const event of ['run.completed', 'run.failed'] as const) await publish(event)
    await sendAll(engine.context)
    expect(receiver.arrived.map(({ path }) => path)).toEqual(['/a'])
    expect(await deliveriesOf(off.id)).toEqual([])
    expect(await deliveriesOf(chosen.id)).toHaveLength(1)
    expect(await eventIds()).toHaveLength(1)
  })

  test('a changed address and a new secret count from the next attempt on; the old secret signs for its time', async () => {
    const { id, secret } = await answered(500)
    await send()
    await changeWebhook(engine.context, owner(), id, { url: `${receiver.url}/new` })
    const rotated = await rotateWebhookSecret(engine.context, owner(), { id, seconds: 3_600 })
    receiver.answer = () => ({ status: 200 })
    await sendAgain(id)
    const second = arrivedAt(1)
    expect(second.path).toBe('/new')
    expect(verified(secret, second)).toEqual(verified(rotated.secret, second))
    const again = await rotateWebhookSecret(engine.context, owner(), { id, seconds: 0 })
    await send()
    const last = arrivedAt(-1)
    expect(() => verified(rotated.secret, last)).toThrow('No matching signature')
    expect(verified(again.secret, last)).toMatchObject({ type: 'run.completed' })
  })

  test('a test and a redelivery are sent, the latter with the same id', async () => {
    const { id, secret } = await hook()
    const { event_id } = await testWebhook(engine.context, owner(), id)
    await sendAll(engine.context)
    const page = await listDeliveries(engine.context.db, engine.organizationId, { webhookId: id, state: 'delivered' }, { limit: 5, cursor: null }) // prettier-ignore
    expect(page.data).toMatchObject([{ event_id, event_type: 'webhook.test', attempts: 1 }])
    await redeliver(engine.context, owner(), { webhookId: id, deliveryId: page.data[0]?.id ?? '' })
    await sendAll(engine.context)
    expect(messageIds()).toEqual([event_id, event_id])
    for (const each of receiver.arrived)
      expect(verified(secret, each).data).toEqual({ organization_id: engine.organizationId })
  })

  test('a lease sends a limited number of deliveries, and the next one sends the rest', async () => {
    await hook()
    await publishMany(mostDeliveries + 5)
    const runner = await runOnce()
    await until('the turn has ended', async () => receiver.arrived.length > 0 && (await working()) === 0)
    expect(receiver.arrived).toHaveLength(mostDeliveries)
    await runner.stop()
    await sendAll(engine.context)
    expect(new Set(messageIds()).size).toBe(mostDeliveries + 5)
  })

  test('two senders at once send nothing twice', async () => {
    await hook('/a')
    await hook('/b')
    await publishMany(30)
    await Promise.all([sendAll(engine.context), sendAll(engine.another())])
    const all = receiver.arrived.map(({ path, headers }) => `${path} ${headers['webhook-id'] as string}`)
    expect(all).toHaveLength(60)
    expect(new Set(all).size).toBe(60)
  })

  test('many webhooks that never answer delay no other organization, and take few places', async () => {
    const hanging = await startScriptedServer()
    hanging.answer = () => ({ status: 200, write: never })
    for (let n = 0; n < 20; n += 1) await hook(`${hanging.url}/${n}`)
    const { id: elsewhere } = await addOrganization(engine.context)
    await engine.context.db.insertInto('memberships').values({ organization_id: elsewhere, user_id: owner().userId, role: 'owner' }).execute() // prettier-ignore
    await hook('/honest', undefined, { ...owner(), organizationId: elsewhere })
    await publish()
    await publish(undefined, undefined, elsewhere)
    const runner = await runOnce()
    await until('the honest one has its message', async () => receiver.arrived.length === 1)
    await until('three requests hang', () => hanging.arrived.length === 3)
    const limits = { ids: null, leaseSeconds: 50, most: 40, mostAiling: 20, mostOfOrganization: 3 }
    const another = await takeLanes({ kind: 'webhook', turn: 'another', ...limits }).execute(
      engine.context.db,
    )
    expect(another.rows).toEqual([])
    expect(await working()).toBe(3)
    await runner.stop()
    await hanging.close()
  })

  test('what waits is bounded', async () => {
    const drift = () => readDrift(engine.context.db, engine.organizationId)
    const { id } = await answered(500)
    await send()
    await sql`
    insert into webhook_events (id, organization_id, type, data, webhook_ids, created_at, message)
    select 'msg_' || n, ${engine.organizationId}, 'run.completed', '{}', '{}', now(), '{}'
    from generate_series(2, ${mostWaiting}::int) as n`.execute(engine.context.db)
    await sql`
    insert into webhook_deliveries (id, organization_id, webhook_id, event_id, state, next_attempt_at, give_up_at, created_at)
    select 'dlv_' || n, ${engine.organizationId}, ${id}, 'msg_' || n, 'waiting', now() + interval '1 hour', now() + interval '1 day', now()
    from generate_series(2, ${mostWaiting}::int) as n`.execute(engine.context.db)
    await send()
    const failed = (await deliveriesOf(id)).filter(({ state }) => state === 'failed')
    expect(failed).toMatchObject([{ attempts: 0, last_error: '10,000 other deliveries waited' }])
    // Only the newest ended deliveries are retained.
    await sql`update webhook_deliveries set state = 'failed', next_attempt_at = null, ended_at = now() where state = 'waiting'`.execute(engine.context.db) // prettier-ignore
    await removeOldDeliveries(engine.context.db)
    expect(await deliveriesOf(id)).toHaveLength(keptDeliveries)
    expect(await eventIds()).toHaveLength(keptDeliveries)
    expect(await drift()).toEqual({ bytes: 0, pending: 0 })
    // After a webhook is deleted, none of its events is left.
    await deleteWebhook(engine.context, owner(), id)
    await removeOldDeliveries(engine.context.db)
    expect(await eventIds()).toEqual([])
    expect(await drift()).toEqual({ bytes: 0, pending: 0 })
  })

  describe('a receiver that fails', () => {
    const elsewhere = () => ({ status: 307, headers: { location: `${receiver.url}/else` } })
    const cases: readonly (readonly [string, () => Scripted, error: RegExp, status: number | null])[] = [
      ['answers 500', () => ({ status: 500 }), /^the answer was 500$/, 500],
      ['answers 404', () => ({ status: 404, body: 'x'.repeat(100_000) }), /^the answer was 404$/, 404],
      ['redirects', elsewhere, /redirects to another place/, null],
      ['closes the connection', () => ({ status: 200, write: cut }), /was lost$/, null],
    ]
    const cut = (response: ServerResponse): void => void response.socket?.destroy()

    test.each(cases)('%s: the message is sent again with the same id', async (_, answer, error, status) => {
      const { id, secret } = await hook()
      receiver.answer = answer
      await send()
      const [row] = await deliveriesOf(id)
      const last_error = expect.stringMatching(error)
      expect(row).toMatchObject({ state: 'waiting', attempts: 1, last_status: status, last_error })
      const lane = await laneOf(id)
      expect(lane.failures).toBe(1)
      expect(lane.seconds).toBeGreaterThan(0)
      receiver.answer = () => ({ status: 200 })
      await sendAgain(id)
      expect(receiver.arrived).toHaveLength(2)
      expect(new Set(messageIds()).size).toBe(1)
      expect(verified(secret, arrivedAt(1))).toEqual(verified(secret, arrivedAt(0)))
      expect(await rowOf(id)).toMatchObject({ failing_since: null })
      expect(await laneOf(id)).toMatchObject({ failures: 0, seconds: null })
    })

    test('with an answer without an end, its status counts', async () => {
      const { id } = await hook()
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
      await send()
      expect(await deliveriesOf(id)).toMatchObject([{ state: 'delivered', last_status: 200 }])
    })

    test.each([429, 503])('is left alone as long as it asks: %i', async (status) => {
      const { id } = await hook()
      receiver.answer = () => ({ status, headers: { 'retry-after': '3000' } })
      await publishMany(2)
      await sendAll(engine.context)
      expect(receiver.arrived).toHaveLength(1)
      const { seconds } = await laneOf(id)
      expect(seconds).toBeGreaterThan(2_900)
      expect(seconds).toBeLessThanOrEqual(3_000)
    })

    test('gets one attempt for each pause, however many messages wait', async () => {
      const { id } = await answered(500)
      await publishMany(5)
      await sendAll(engine.context)
      expect(receiver.arrived).toHaveLength(1)
      // The next attempt is for another message, so one message that is always refused does not block the others.
      await engine.context.pool.query('update lanes set paused_until = null where id = $1', [id])
      await sendAll(engine.context)
      expect(new Set(messageIds()).size).toBe(2)
    })

    test('that answers 410 is turned off, with an audit entry', async () => {
      const { id } = await answered(410)
      await send()
      expect(await rowOf(id)).toMatchObject({ active: false, disabled_reason: expect.stringContaining('410') }) // prettier-ignore
      expect(await auditOf(engine.context, engine.organizationId, 1)).toMatchObject([
        { event_type: 'webhook.disabled', metadata: { webhook_id: id, host: new URL(receiver.url).host } },
      ])
      await send()
      expect(receiver.arrived).toHaveLength(1)
      // Messages that waited are sent when an owner turns the webhook on again.
      receiver.answer = () => ({ status: 200 })
      await changeWebhook(engine.context, engine.caller('owner'), id, { active: true })
      await sendAgain(id)
      expect(await deliveriesOf(id)).toMatchObject([{ state: 'delivered', attempts: 2 }])
      expect(await rowOf(id)).toMatchObject({ active: true, disabled_reason: null })
    })

    test('at its old address says nothing about the new one', async () => {
      const { id } = await answered(410)
      const answer = Promise.withResolvers<{ status: number }>()
      receiver.answer = () => answer.promise
      const sending = send()
      await until('the message has arrived', () => receiver.arrived.length > 0)
      const other = `${receiver.url}/other`
      await changeWebhook(engine.context, engine.caller('owner'), id, { url: other })
      answer.resolve({ status: 410 })
      await sending
      expect(await rowOf(id)).toMatchObject({ active: true, disabled_reason: null, failing_since: null })
    })

    test('for three days is turned off', async () => {
      const { id } = await answered(500)
      await publish()
      await engine.context.pool.query(`update webhooks set failing_since = now() - interval '3 days 1 second'`) // prettier-ignore
      await sendAll(engine.context)
      const row = await rowOf(id)
      expect(row).toMatchObject({ active: false })
      expect(row.disabled_reason).toBe('nothing has arrived for 3 days; the last error: the answer was 500')
    })

    test('is not tried after a day', async () => {
      const { id } = await answered(500)
      await send()
      await engine.context.pool.query(`update webhook_deliveries set give_up_at = now()`)
      await hurry(id)
      await removeOldDeliveries(engine.context.db)
      await sendAll(engine.context)
      expect(receiver.arrived).toHaveLength(1)
      expect(await deliveriesOf(id)).toMatchObject([
        { state: 'failed', attempts: 1, last_error: 'the answer was 500', next_attempt_at: null },
      ])
    })
  })
})

describe('one attempt', () => {
  const opened: { close(): unknown }[] = []
  afterEach(async () => {
    for (const each of opened.splice(0)) await each.close()
  })

  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const other = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'

  test('signs as the published example of Standard Webhooks', () => {
    const at = new Date(1_614_265_330_000)
    const target = { url: 'https://example.com/', secret }
    expect(signatureOf(target, 'msg_p5jXN8AQM9LWM0D4loKWxJek', '{"test": 2432232314}', at)).toEqual({
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    })
  })

  test('signs with a former secret until its time, and not afterwards', () => {
    const until = '2026-01-01T00:00:00.000Z'
    const target = { url: 'https://example.com/', secret, former: { secret: other, until } }
    const signatures = (now: string) => signatureOf(target, 'msg_1', '{}', new Date(now))['webhook-signature'].split(' ') // prettier-ignore
    expect(signatures('2025-12-31T23:59:59.000Z')).toHaveLength(2)
    expect(signatures(until)).toHaveLength(1)
  })

  const out = (hosts: readonly NamedHost[], lookup?: LookupFunction): Outgoing => {
    const made = createOutgoing({ hosts, ...(lookup === undefined ? {} : { lookup }) })
    opened.push(made)
    return made
  }
  const attempt = (outgoing: Outgoing, url: string, milliseconds = 15_000) => {
    const { signal } = new AbortController()
    return sendMessage(outgoing, { url, secret }, { id: 'msg_1', message: '{}' }, signal, milliseconds)
  }

  const listen = async (write: Scripted['write'] = (response) => response.end()): Promise<ScriptedServer> => {
    const server = await startScriptedServer()
    server.answer = () => ({ status: 202, write })
    opened.push(server)
    return server
  }

  test('gives up on an answer that does not begin in time', async () => {
    const { url } = await listen(never)
    expect(await attempt(out(loopbackHosts), url, 100)).toMatchObject({
      delivered: false,
      status: null,
      error: expect.stringContaining('did not answer in time'),
    })
  })

  test('a body that trickles for ever does not matter', async () => {
    const { url } = await listen((response) => {
      const timer = setInterval(() => response.write('.'), 20)
      response.on('close', () => clearInterval(timer))
    })
    expect(await attempt(out(loopbackHosts), url)).toMatchObject({ delivered: true, status: 202 })
  })

  /** A name resolution that returns these addresses for every name. */
  const answering =
    (...addresses: string[]): LookupFunction =>
    (_name, options, done) => {
      const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
      if (options.all === true) done(null, found)
      else done(null, found[0]?.address ?? '', found[0]?.family)
    }

  test.each([
    ['127.0.0.1'],
    ['10.1.2.3'],
    ['169.254.169.254'],
    ['168.63.129.16'],
    ['::1'],
    ['::ffff:127.0.0.1'],
    ['fd00:ec2::254'],
    // One public address among the resolved addresses must not make the name acceptable.
    ['8.8.8.8', '192.168.0.1'],
  ])('refuses a name that leads to %s', async (...addresses) => {
    const { arrived } = await listen()
    expect(await attempt(out([], answering(...addresses)), 'https://hooks.example.com/')).toMatchObject({
      delivered: false,
      status: null,
      error: expect.stringContaining('cannot be reached'),
    })
    expect(arrived).toEqual([])
  })

  test('refuses plain http and loopback unless the operator names the host', async () => {
    const { url, arrived } = await listen()
    const { port } = new URL(url)
    expect((await attempt(out([]), url)).error).toContain('plain http')
    for (const spelling of ['127.0.0.1', '0x7f.1', '2130706433', '[::ffff:127.0.0.1]', 'localhost'])
      expect((await attempt(out([]), `https://${spelling}:${port}/`)).error).toContain('cannot be reached')
    expect(arrived).toEqual([])
    expect(await attempt(out([{ host: '127.0.0.1', port: Number(port) }]), url)).toMatchObject({
      delivered: true,
    })
  })
})
