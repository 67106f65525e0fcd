import { get, type IncomingMessage } from 'node:http'
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { addKey, addPerson, requireFactors } from './fixtures.ts'
import { resourcesOf } from './resources.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
let organizationId: string
const draining = new AbortController()
beforeAll(async () => {
  server = await startTestServer({ services: { pingMilliseconds: 20, draining: draining.signal } })
  organizationId = server.identities.organization_id
})
afterAll(() => server.close())

async function openRun(): Promise<string> {
  const { ids } = await resourcesOf(await fresh(), organizationId, server.identities.users.owner.user_id)
  await server.context.pool.query("update runs set status = 'running', finished_at = null where id = $1", [
    ids.run,
  ])
  return ids.run
}

/**
 * Deletes the fixture's rules before each run, because they have fixed names. Also deletes its connection, because only
 * one can be live.
 */
async function fresh(): Promise<TestServer> {
  await server.context.pool.query('delete from rules')
  await server.context.pool.query('delete from label_rules')
  await server.context.pool.query('delete from connections')
  return server
}

const happen = (runId: string, ...types: string[]) =>
  server.context.combiner.run(organizationId, 'run.finish', async (tx) => {
    for (const type of types) tx.event(runId, type, { note: type })
    if (types.includes('run.completed'))
      await tx.trx
        .updateTable('runs')
        .set({ status: 'completed', finished_at: tx.now, slot: null })
        .where('id', '=', runId)
        .execute()
    tx.append({
      eventType: 'workflow.updated',
      action: 'x',
      status: 'success',
      actor: { type: 'system', id: 'test' },
    })
  })

interface Stream {
  readonly response: IncomingMessage
  readonly comments: string[]
  /** The next event, or null when the stream has ended. */
  next(): Promise<EventSourceMessage | null>
  close(): void
}

function open(path: string, key: string, headers: Record<string, string> = {}): Promise<Stream> {
  return new Promise((resolve, reject) => {
    const request = get(`${server.base}${path}`, { headers: { authorization: `Bearer ${key}`, ...headers } })
    request.on('error', reject)
    request.on('response', (response) => {
      const events: EventSourceMessage[] = []
      const comments: string[] = []
      let ended = false
      let tell: () => void = () => {}
      const parser = createParser({
        onEvent: (event) => {
          events.push(event)
          tell()
        },
        onComment: (comment) => {
          comments.push(comment)
          tell()
        },
      })
      response.setEncoding('utf8')
      response.on('data', (text: string) => parser.feed(text))
      response.on('close', () => {
        ended = true
        tell()
      })
      response.on('error', () => {})
      resolve({
        response,
        comments,
        async next() {
          while (events.length === 0 && !ended) await new Promise<void>((done) => (tell = done))
          return events.shift() ?? null
        },
        close: () => request.destroy(),
      })
    })
  })
}

const viewer = () => server.identities.users.viewer.api_key

describe('live events', () => {
  test('come in order, with their sequence number as id, and end after the run’s last event', async () => {
    const run = await openRun()
    await happen(run, 'run.queued')
    const stream = await open(`/runs/${run}/events`, viewer())
    expect(stream.response.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'x-accel-buffering': 'no',
    })
    expect(await stream.next()).toMatchObject({ id: '1', event: 'run.queued' })
    await happen(run, 'run.started', 'step.started')
    const second = await stream.next()
    expect(JSON.parse(second?.data ?? '')).toMatchObject({
      run_id: run,
      seq: 2,
      type: 'run.started',
      note: 'run.started',
    })
    expect(await stream.next()).toMatchObject({ id: '3' })
    await happen(run, 'run.completed')
    expect(await stream.next()).toMatchObject({ id: '4', event: 'run.completed' })
    expect(await stream.next()).toBeNull()
  })

  test.each([
    ['Last-Event-ID', (run: string) => open(`/runs/${run}/events`, viewer(), { 'last-event-id': '2' })],
    ['?after=', (run: string) => open(`/api/v1/runs/${run}/events?after=2`, viewer())],
  ])('resume from %s', async (_, resume) => {
    const run = await openRun()
    await happen(run, 'run.queued', 'run.started', 'run.completed')
    const stream = await resume(run)
    expect(await stream.next()).toMatchObject({ id: '3' })
    expect(await stream.next()).toBeNull()
  })

  test('a client that has seen all events of an ended run gets the end of the stream', async () => {
    const run = await openRun()
    await happen(run, 'run.completed')
    expect(await (await open(`/runs/${run}/events?after=1`, viewer())).next()).toBeNull()
  })

  test('more events than fit into one read all come', async () => {
    const run = await openRun()
    await happen(run, ...Array.from({ length: 1200 }, () => 'step.started'), 'run.completed')
    const stream = await open(`/runs/${run}/events`, viewer())
    let last: string | undefined
    for (let event = await stream.next(); event !== null; event = await stream.next()) last = event.id
    expect(last).toBe('1201')
  })

  test('end after `limit` events, also in an open run, and `after` goes on', async () => {
    const run = await openRun()
    await happen(run, ...Array.from({ length: 300 }, () => 'step.started'))
    const idsOf = async (query: string): Promise<string[]> => {
      const stream = await open(`/runs/${run}/events?${query}`, viewer())
      const ids: string[] = []
      for (let event = await stream.next(); event !== null; event = await stream.next())
        ids.push(`${event.id}`)
      return ids
    }
    expect(await idsOf('limit=2')).toEqual(['1', '2'])
    expect(await idsOf('limit=2&after=2')).toEqual(['3', '4'])
    expect(await idsOf('limit=200&after=100')).toHaveLength(200)
    const refused = await server.call(viewer(), 'GET', `/runs/${run}/events?limit=0`)
    expect(refused.status).toBe(422)
  })

  test('twenty streams of one run share their reads, and each gets every event', async () => {
    const run = await openRun()
    const { looks } = server.context
    const join = looks.join.bind(looks)
    let reads = 0
    const spy = jest.spyOn(looks, 'join').mockImplementation((key, work) =>
      join(key, (begins) => {
        // Pings check the rights of their streams too, so only reads of events are counted.
        if (key.includes('"events"')) reads += 1
        return work(begins)
      }),
    )
    try {
      const streams = await Promise.all(
        Array.from({ length: 20 }, () => open(`/runs/${run}/events`, viewer())),
      )
      const nextOfAll = async () => {
        const events = await Promise.all(streams.map((stream) => stream.next()))
        return new Set(events.map((event) => event?.event ?? 'end'))
      }
      await happen(run, 'run.queued')
      expect(await nextOfAll()).toEqual(new Set(['run.queued']))
      reads = 0
      await happen(run, 'run.started')
      expect(await nextOfAll()).toEqual(new Set(['run.started']))
      // Each stream reads the event, and then reads again. Alone, twenty streams would read forty times.
      expect(reads).toBeLessThan(20)
      await happen(run, 'run.completed')
      expect(await nextOfAll()).toEqual(new Set(['run.completed']))
      expect(await nextOfAll()).toEqual(new Set(['end']))
    } finally {
      spy.mockRestore()
    }
  })

  test('a stream whose key was revoked gets nothing, although it shares its reads with others', async () => {
    const { context } = server
    const run = await openRun()
    const key = await addKey(context, organizationId, server.identities.users.viewer.user_id, ['runs:read'])
    const [revoked, other] = [
      await open(`/runs/${run}/events`, key.secret),
      await open(`/runs/${run}/events`, viewer()),
    ]
    await context.db
      .updateTable('api_keys')
      .set({ revoked_at: new Date() })
      .where('id', '=', key.id)
      .execute()
    await happen(run, 'run.completed')
    expect(await revoked.next()).toBeNull()
    expect(await other.next()).toMatchObject({ event: 'run.completed' })
  })

  test('comments keep a quiet stream open', async () => {
    const run = await openRun()
    const stream = await open(`/runs/${run}/events`, viewer())
    const end = stream.next()
    while (stream.comments.length < 2) await new Promise((resolve) => stream.response.once('data', resolve))
    expect(stream.comments[0]).toBe('ping')
    stream.close()
    await end
  })

  test('end once the organization requires a factor that the key does not have', async () => {
    const { context } = server
    const stream = await open(`/runs/${await openRun()}/events`, viewer())
    await requireFactors(context, organizationId)
    expect(await stream.next()).toBeNull()
    await context.pool.query(`update organizations set settings = settings - 'require_mfa' where id = $1`, [
      organizationId,
    ])
  })

  test('end for a key that is revoked and for a person who leaves', async () => {
    const { context } = server
    const run = await openRun()
    const key = await addKey(context, organizationId, server.identities.users.viewer.user_id, ['runs:read'])
    const person = await addPerson(context, organizationId, 'viewer')
    const [byKey, byPerson] = [
      await open(`/runs/${run}/events`, key.secret),
      await open(`/runs/${run}/events`, person.key),
    ]
    await context.db
      .updateTable('api_keys')
      .set({ revoked_at: new Date() })
      .where('id', '=', key.id)
      .execute()
    await context.db.deleteFrom('memberships').where('user_id', '=', person.userId).execute()
    expect(await byKey.next()).toBeNull()
    expect(await byPerson.next()).toBeNull()
  })

  test('are checked before the stream opens', async () => {
    const run = await openRun()
    const key = await addKey(server.context, organizationId, server.identities.users.owner.user_id, [
      'runs:write',
    ])
    expect((await server.call(key.secret, 'GET', `/runs/${run}/events`)).status).toBe(403)
    expect((await server.call(viewer(), 'GET', `/runs/${run}/events?after=x`)).status).toBe(422)
    const { status, headers } = await fetch(`${server.base}/runs/${run}/events`, {
      method: 'HEAD',
      headers: { authorization: `Bearer ${viewer()}` },
    })
    expect([status, headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8'])
  })

  test('a draining server ends its streams', async () => {
    const run = await openRun()
    const stream = await open(`/runs/${run}/events`, viewer())
    draining.abort()
    expect(await stream.next()).toBeNull()
  })
})
