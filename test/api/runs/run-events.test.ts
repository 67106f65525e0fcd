import { createServer, get, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import type { Response } from 'express'
import { openStream, type Stream, type StreamOptions } from '../../../src/api/sse.ts'
import { outputPlace } from '../../../src/governance/sealing/places.ts'
import { testKey } from '../../governance/support.ts'
import { addKey, addPerson, requireFactors } from '../fixtures.ts'
import { resourcesOf } from '../resources.ts'
import { listen, startTestServer, type TestServer } from '../server.ts'
import { Agent } from '../agents/agent.ts'

describe('the events of a run', () => {
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
      const request = get(`${server.base}${path}`, {
        headers: { authorization: `Bearer ${key}`, ...headers },
      })
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
})

describe('a stream of events', () => {
  let server: Server | null = null
  afterEach(async () => {
    await new Promise((resolve) => (server === null ? resolve(null) : server.close(resolve)))
  })

  /**
   * A stream without pings, so that only its writes call `stillAllowed`. Also returns everything that its reader gets.
   */
  async function stream(stillAllowed: StreamOptions['stillAllowed']) {
    const opened = Promise.withResolvers<{ at: Stream; response: ServerResponse }>()
    server = createServer((_, response) => {
      const express = Object.assign(response, {
        status: (code: number) => Object.assign(response, { statusCode: code }),
      }) as unknown as Response
      const signal = new AbortController().signal
      opened.resolve({
        at: openStream(express, { pingMilliseconds: 2 ** 30, stillAllowed, signal }),
        response,
      })
    })
    const base = await listen(server)
    const read = fetch(base).then((answer) => answer.text())
    return { ...(await opened.promise), read }
  }

  describe('a stream', () => {
    test('writes nothing more to a caller who may no longer read', async () => {
      let allowed = true
      const { at, read } = await stream(() => Promise.resolve(allowed))
      await at.write('data: 1\n\n')
      allowed = false
      await at.write('data: 2\n\n')
      expect(at.signal.aborted).toBe(true)
      allowed = true
      await at.write('data: 3\n\n')
      at.end()
      expect(await read).toBe('data: 1\n\n')
    })

    test('writes nothing while the check fails', async () => {
      const { at, read } = await stream(() => Promise.reject(new Error('the database is gone')))
      await expect(at.write('data: 1\n\n')).rejects.toThrow('the database is gone')
      at.end()
      expect(await read).toBe('')
    })
  })
})

describe('large answers', () => {
  /* Answers of any size are sent as fast as the client reads, and are never completely in memory. */

  let server: TestServer
  /** The path of a receipt. */
  let path: string
  let runPath: string
  /** Parsing such answers takes long. The server closes connections that are idle in that time, so none is kept open. */
  const read = (of: string) => server.call(key(), 'GET', of, undefined, { connection: 'close' })
  const key = () => server.identities.users.admin.api_key
  const decisions = 3_000

  beforeAll(async () => {
    server = await startTestServer()
    const agent = new Agent(server, server.identities.users.member.api_key)
    const { session_run_id: run } = await agent.ask('Read', { file_path: 'a' })
    // These decisions have 24 MB of explanations.
    await server.context.pool.query(
      `insert into decisions (id, organization_id, run_id, seq, tool, side_effect, verdict, matched_rules, reason, explanation,
       labels, label_sources, policy_version, decided_at, session_id, requested_by, bytes)
     select 'dec_' || n, organization_id, run_id, n, tool, side_effect, verdict, matched_rules, reason, repeat('x', 8000),
       labels, label_sources, policy_version, decided_at, session_id, requested_by, 8500
     from decisions, generate_series(2, $2) as n where run_id = $1`,
      [run, decisions],
    )
    path = `/runs/${run}/authorization`
    runPath = `/runs/${await largeRun()}`
  })

  /** A run with 120 steps that each show 200 KB, and the step `list` with 120 items of 200 KB each. */
  async function largeRun(): Promise<string> {
    const { call, context } = server
    const definition = { steps: [{ id: 'first', tool: 'memory_get', params: { key: 'k' } }] }
    const workflow = await call(key(), 'POST', '/workflows', { name: 'w', definition })
    const executed = await call(key(), 'POST', `/workflows/${workflow.body.id}/execute?wait=0`, {})
    const { execution_id: id } = executed.body
    await context.pool.query(
      `insert into run_steps (run_id, step_id, position, tool, status, item_count, finished_at)
     select $1, case n when 0 then 'list' else 's' || n end, n + 1, 'memory_get', 'completed',
       case n when 0 then 120 end, now() from generate_series(0, 120) as n`,
      [id],
    )
    const output = JSON.stringify('y'.repeat(200_000))
    const keys = Array.from({ length: 240 }, (_, n) =>
      n < 120
        ? { runId: id, stepId: `s${n + 1}`, itemIndex: -1 }
        : { runId: id, stepId: 'list', itemIndex: n - 120 },
    )
    for (const key of keys)
      await context.pool.query(
        `insert into effects (run_id, organization_id, step_id, item_index, tool, state, finished_at, output_sealed)
       values ($1, $2, $3, $4, 'memory_get', 'completed', now(), $5)`,
        [
          ...[id, server.identities.organization_id, key.stepId, key.itemIndex],
          await context.sealer.seal(outputPlace(key), output),
        ],
      )
    return id
  }
  afterAll(() => server?.close())

  describe('a receipt', () => {
    test('is whole by default, and equal byte for byte to one text', async () => {
      const { text, body, status } = await read(path)
      expect(status).toBe(200)
      expect(text).toBe(JSON.stringify(body))
      expect(Object.keys(body)).not.toContain('next_cursor')
      expect(body.decisions.map(({ seq }: { seq: number }) => seq)).toEqual(
        Array.from({ length: decisions }, (_, index) => index + 1),
      )
    })

    test('has pages that together are the whole', async () => {
      const seen: number[] = []
      let cursor = ''
      do {
        const { body } = await read(`${path}?limit=200${cursor}`)
        seen.push(...body.decisions.map(({ seq }: { seq: number }) => seq))
        cursor = body.next_cursor === null ? '' : `&cursor=${body.next_cursor}`
      } while (cursor !== '')
      expect(seen).toEqual(Array.from({ length: decisions }, (_, index) => index + 1))
    })

    test.each(['cursor=1', 'cursor=bm8', 'limit=0', 'limit=201', 'limit=x'])(
      'refuses `%s`',
      async (query) => {
        expect((await read(`${path}?${query}`)).status).toBe(422)
      },
    )

    test('small, still has a content length', async () => {
      const { headers } = await read(`${path}?limit=2`)
      expect(Number(headers.get('content-length'))).toBeGreaterThan(100)
    })
  })

  describe('a run', () => {
    test('has pages of steps, with their outputs, that together are the whole', async () => {
      const { steps, outputs, ...rest } = (await read(runPath)).body
      expect(Object.keys(rest)).not.toContain('next_cursor')
      const seen: unknown[] = []
      let seenOutputs = {}
      let cursor = ''
      do {
        // Both addresses answer in pages.
        const at = cursor === '' ? runPath : runPath.replace('runs', 'executions')
        const { body } = await read(`${at}?limit=50${cursor}`)
        const { steps: page, outputs: some, next_cursor: next, ...same } = body
        expect(same).toEqual(rest)
        expect(page.length).toBe(Math.min(50, steps.length - seen.length))
        seen.push(...page)
        seenOutputs = { ...seenOutputs, ...some }
        cursor = next === null ? '' : `&cursor=${next}`
      } while (cursor !== '')
      expect(seen).toEqual(steps)
      expect(Object.keys(seenOutputs)).toEqual(Object.keys(outputs))
      const { next_cursor: first } = (await read(`${runPath}?limit=1`)).body
      const behind = (await read(`${runPath}?limit=${steps.length - 1}&cursor=${first}`)).body
      expect([behind.steps, behind.next_cursor]).toEqual([steps.slice(1), null])
      expect((await read(`${runPath}?limit=1&cursor=${Buffer.from('x').toString('base64url')}`)).status).toBe(
        422,
      )
    })

    test('that is an agent’s session has one empty page of steps', async () => {
      const session = path.replace('/authorization', '')
      expect((await read(`${session}?limit=1`)).body).toMatchObject({ steps: [], next_cursor: null })
      expect((await read(session)).body).not.toHaveProperty('next_cursor')
    })

    test('is equal byte for byte to one text, with the outputs of its steps', async () => {
      const { text, body } = await read(runPath)
      expect(text).toBe(JSON.stringify(body))
      expect(body.steps).toHaveLength(122)
      expect(Object.keys(body.outputs)).toHaveLength(121)
      expect(body.outputs.list).toEqual({ truncated: true, size: 120 * 200_002 })
      expect(body.outputs.s120).toBe('y'.repeat(200_000))
    })

    test('has complete outputs of steps', async () => {
      const list = await read(`${runPath}/steps/list/output`)
      expect(list.text).toBe(JSON.stringify(list.body))
      expect(list.body.map((each: string) => each.length)).toEqual(Array.from({ length: 120 }, () => 200_000))
      expect((await read(`${runPath}/steps/s7/output`)).body).toBe('y'.repeat(200_000))
      expect((await read(`${runPath}/steps/first/output`)).text).toBe('null')
    })
  })

  describe('answers of 24 MB each', () => {
    test('are sent to many slow clients, some of which disconnect, with a small heap and without holding a connection', async () => {
      const paths = [path, runPath, `${runPath}/steps/list/output`]
      const process = await startServing()
      const serve = async (): Promise<void> => {
        const slow = await Promise.all(
          Array.from({ length: 30 }, (_, index) => begin(process.base, paths[index % 3] ?? '')),
        )
        for (const socket of slow.slice(0, 9)) socket.destroy()
        // While the client reads nothing, the service holds no database connection.
        const { rows } = await server.context.pool.query(
          "select count(*)::int as count from pg_stat_activity where state = 'idle in transaction' and datname = current_database()",
        )
        expect(rows[0].count).toBe(0)
        for (const socket of slow.slice(9, 12)) expect(await lengthOf(socket)).toBeGreaterThan(24_000_000)
        const { status } = await fetch(`${process.base}/me`, {
          headers: { authorization: `Bearer ${key()}` },
        })
        expect(status).toBe(200)
        for (const socket of slow) socket.destroy()
      }
      try {
        await Promise.race([serve(), process.ended])
      } finally {
        process.child.stdin?.end()
      }
    })
  })

  /** Starts a process whose heap has room for the service and for parts of answers, but not for all 30 answers (720 MB). */
  async function startServing(): Promise<{
    child: ChildProcess
    base: string
    /** Rejects when the process ends. */
    ended: Promise<never>
  }> {
    const file = fileURLToPath(new URL('../serving-process.ts', import.meta.url))
    const { url } = server.context.config.database
    const child = spawn('node', ['--max-old-space-size=200', file, url, testKey.toString('base64')], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const ended = new Promise<never>((_, reject) => {
      child.once('exit', (code, signal) => reject(new Error(`the process ended: ${code ?? signal}`)))
    })
    ended.catch(() => undefined)
    const line = once(createInterface({ input: child.stdout }), 'line') as Promise<[string]>
    const [base] = await Promise.race([line, ended])
    return { child, base, ended }
  }

  /** Requests an answer, and reads only its beginning. */
  async function begin(base: string, path: string): Promise<Socket> {
    const socket = connect(Number(new URL(base).port), '127.0.0.1')
    socket.on('error', () => undefined)
    socket.write(
      `GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${key()}\r\nconnection: close\r\n\r\n`,
    )
    await once(socket, 'readable')
    socket.read(1)
    return socket
  }

  /** Reads the rest of the answer, and returns its length. */
  async function lengthOf(socket: Socket): Promise<number> {
    let length = 0
    for await (const part of socket) length += (part as Buffer).length
    return length
  }
})
