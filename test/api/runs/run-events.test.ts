import { createServer, type Server, type ServerResponse } from 'node:http'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { EventSourceParserStream } from 'eventsource-parser/stream'
import type { Response } from 'express'
import { openStream, type Stream, type StreamOptions } from '../../../src/api/routes/run-events.ts'
import { outputBinding } from '../../../src/governance/sealing/bindings.ts'
import { until } from '../../stack/until.ts'
import { oneStep } from '../../governance/runs/engine-fixture.ts'
import { testKey } from '../../governance/support.ts'
import { addKey, addPerson, requireFactors } from '../fixtures.ts'
import { useServer } from '../use-server.ts'
import { resourcesOf } from '../resources.ts'
import { listen, type TestServer } from '../server.ts'
import { Agent } from '../agents/agent.ts'

let server: TestServer
let organizationId: string
const draining = new AbortController()
const {
  keyOf,
  personOf,
  as: call,
} = useServer(
  (started) => {
    server = started
    organizationId = server.identities.organization_id
  },
  {},
  { pingMilliseconds: 20, draining: draining.signal },
)

describe('a stream of events', () => {
  let plain: Server | null = null
  afterEach(async () => {
    await new Promise((resolve) => (plain === null ? resolve(null) : plain.close(resolve)))
  })

  /**
   * A stream without pings, so that only its writes call `stillAllowed`. Also returns everything that its reader gets.
   */
  async function stream(stillAllowed: StreamOptions['stillAllowed']) {
    const opened = Promise.withResolvers<{ at: Stream; response: ServerResponse }>()
    plain = createServer((_, response) => {
      const express = Object.assign(response, {
        status: (code: number) => Object.assign(response, { statusCode: code }),
      }) as unknown as Response
      const signal = new AbortController().signal
      opened.resolve({
        at: openStream(express, { pingMilliseconds: 2 ** 30, stillAllowed, signal }),
        response,
      })
    })
    const base = await listen(plain)
    const read = fetch(base).then((answer) => answer.text())
    return { ...(await opened.promise), read }
  }

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

describe('large answers', () => {
  /* Answers of any size are sent as fast as the client reads, and are never completely in memory. */

  /** The path of a receipt. */
  let path: string
  let runPath: string
  /** Parsing such answers takes long. The server closes connections that are idle in that time, so none is kept open. */
  const read = (of: string) => call('admin', 'GET', of, undefined, { connection: 'close' })
  const decisions = 2_000
  /** The steps of the run, and the items of one of them, each with an output of 200 KB. */
  const steps = 80

  beforeAll(async () => {
    const agent = new Agent(server, keyOf('member'))
    const { session_run_id: run } = await agent.ask('Read', { file_path: 'a' })
    // These decisions have 16 MB of explanations.
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

  /** A run with steps that each show 200 KB, and the step `list` whose items have 200 KB each. */
  async function largeRun(): Promise<string> {
    const { context } = server
    const workflow = await call('admin', 'POST', '/workflows', { name: 'w', definition: oneStep })
    const executed = await call('admin', 'POST', `/workflows/${workflow.body.id}/execute?wait=0`, {})
    const { execution_id: runId } = executed.body
    await context.pool.query(
      `insert into run_steps (run_id, step_id, position, tool, status, item_count, finished_at)
     select $1, case n when 0 then 'list' else 's' || n end, n + 1, 'memory_get', 'completed',
       case n when 0 then $2::int end, now() from generate_series(0, $2) as n`,
      [runId, steps],
    )
    const output = JSON.stringify('y'.repeat(200_000))
    for (let n = 0; n < 2 * steps; n += 1) {
      const [stepId, itemIndex] = n < steps ? [`s${n + 1}`, -1] : ['list', n - steps]
      const sealed = await context.sealer.seal(outputBinding({ runId, stepId, itemIndex }), output)
      await context.pool.query(
        `insert into effects (run_id, organization_id, step_id, item_index, tool, state, finished_at, output_sealed)
       values ($1, $2, $3, $4, 'memory_get', 'completed', now(), $5)`,
        [runId, organizationId, stepId, itemIndex, sealed],
      )
    }
    return runId
  }
  const everySeq = Array.from({ length: decisions }, (_, index) => index + 1)

  describe('a receipt', () => {
    test('is whole by default, and equal byte for byte to one text', async () => {
      const { text, body, status } = await read(path)
      expect(status).toBe(200)
      expect(text).toBe(JSON.stringify(body))
      expect(Object.keys(body)).not.toContain('next_cursor')
      expect(body.decisions.map(({ seq }: { seq: number }) => seq)).toEqual(everySeq)
    })

    test('has pages that together are the whole', async () => {
      const seen: number[] = []
      let cursor = ''
      do {
        const { body } = await read(`${path}?limit=200${cursor}`)
        seen.push(...body.decisions.map(({ seq }: { seq: number }) => seq))
        cursor = body.next_cursor === null ? '' : `&cursor=${body.next_cursor}`
      } while (cursor !== '')
      expect(seen).toEqual(everySeq)
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
    test('is equal byte for byte to one text, and has pages that together are the whole', async () => {
      const { text, body: whole } = await read(runPath)
      expect(text).toBe(JSON.stringify(whole))
      const { steps: all, outputs, ...rest } = whole
      expect(all).toHaveLength(steps + 2)
      expect(Object.keys(outputs)).toHaveLength(steps + 1)
      expect(outputs.list).toEqual({ truncated: true, size: steps * 200_002 })
      expect(outputs[`s${steps}`]).toBe('y'.repeat(200_000))
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
        expect(page.length).toBe(Math.min(50, all.length - seen.length))
        seen.push(...page)
        seenOutputs = { ...seenOutputs, ...some }
        cursor = next === null ? '' : `&cursor=${next}`
      } while (cursor !== '')
      expect(seen).toEqual(all)
      expect(Object.keys(seenOutputs)).toEqual(Object.keys(outputs))
      const { next_cursor: first } = (await read(`${runPath}?limit=1`)).body
      const behind = (await read(`${runPath}?limit=${steps + 1}&cursor=${first}`)).body
      expect([behind.steps, behind.next_cursor]).toEqual([all.slice(1), null])
      expect((await read(`${runPath}?limit=1&cursor=eA`)).status).toBe(422)
    })

    test('that is an agent’s session has one empty page of steps', async () => {
      const session = path.replace('/authorization', '')
      expect((await read(`${session}?limit=1`)).body).toMatchObject({ steps: [], next_cursor: null })
      expect((await read(session)).body).not.toHaveProperty('next_cursor')
    })

    test('has complete outputs of steps', async () => {
      const list = await read(`${runPath}/steps/list/output`)
      expect(list.text).toBe(JSON.stringify(list.body))
      expect(list.body).toHaveLength(steps)
      expect(new Set(list.body)).toEqual(new Set(['y'.repeat(200_000)]))
      expect((await read(`${runPath}/steps/s7/output`)).body).toBe('y'.repeat(200_000))
      expect((await read(`${runPath}/steps/s/output`)).text).toBe('null')
    })
  })

  test('answers of 16 MB each are sent to many slow clients, some of which disconnect, with a small heap and without holding a connection', async () => {
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
      for (const socket of slow.slice(9, 12)) expect(await lengthOf(socket)).toBeGreaterThan(16_000_000)
      const headers = { authorization: `Bearer ${keyOf('admin')}` }
      expect((await fetch(`${process.base}/me`, { headers })).status).toBe(200)
      for (const socket of slow) socket.destroy()
    }
    try {
      await Promise.race([serve(), process.ended])
    } finally {
      process.child.stdin?.end()
    }
  })

  /** Starts a process whose heap has room for the service and for parts of answers, but not for all 30 answers (480 MB). */
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
      `GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${keyOf('admin')}\r\nconnection: close\r\n\r\n`,
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

describe('the events of a run', () => {
  async function openRun(): Promise<string> {
    // The fixture's rules have fixed names, and only one of its connections can be live.
    for (const table of ['rules', 'label_rules', 'connections'])
      await server.context.pool.query(`delete from ${table}`)
    const { ids } = await resourcesOf(server, organizationId, personOf('owner').userId)
    const opened = "update runs set status = 'running', finished_at = null where id = $1"
    await server.context.pool.query(opened, [ids.run])
    return ids.run
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
      const actor = { type: 'system', id: 'test' } as const
      tx.append({ eventType: 'workflow.updated', action: 'x', status: 'success', actor })
    })

  /** Opens the events of a run. `next` resolves with the next event, or with null when the stream has ended. */
  async function open(run: string, query = '', key = keyOf('viewer'), headers: Record<string, string> = {}) {
    const response = await fetch(`${server.base}/api/v1/runs/${run}/events${query}`, {
      headers: { authorization: `Bearer ${key}`, ...headers },
    })
    const comments: string[] = []
    const parser = new EventSourceParserStream({ onComment: (comment) => void comments.push(comment) })
    const events = (response.body as ReadableStream<BufferSource>)
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(parser)
      .getReader()
    const next = async () => {
      const { value } = await events.read().catch(() => ({ value: undefined }))
      return value ?? null
    }
    return { response, comments, next }
  }
  /** The ids of all events until the end of the stream. */
  async function idsOf(run: string, query = '', headers = {}): Promise<string[]> {
    const { next } = await open(run, query, keyOf('viewer'), headers)
    const ids: string[] = []
    for (let event = await next(); event !== null; event = await next()) ids.push(`${event.id}`)
    return ids
  }
  const revoke = (id: string) =>
    server.context.pool.query('update api_keys set revoked_at = now() where id = $1', [id])
  const viewersKey = () => addKey(server.context, organizationId, personOf('viewer').userId, ['runs:read'])

  test('come in order, with their sequence number as id, and end after the run’s last event', async () => {
    const run = await openRun()
    await happen(run, 'run.queued')
    const stream = await open(run)
    expect(Object.fromEntries(stream.response.headers)).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'x-accel-buffering': 'no',
    })
    expect(await stream.next()).toMatchObject({ id: '1', event: 'run.queued' })
    await happen(run, 'run.started', 'step.started')
    const second = JSON.parse((await stream.next())?.data ?? '')
    expect(second).toMatchObject({ run_id: run, seq: 2, type: 'run.started', note: 'run.started' })
    expect(await stream.next()).toMatchObject({ id: '3' })
    await happen(run, 'run.completed')
    expect(await stream.next()).toMatchObject({ id: '4', event: 'run.completed' })
    expect(await stream.next()).toBeNull()
  })

  test.each([
    ['Last-Event-ID', '', { 'last-event-id': '2' }, ['3']],
    ['?after=', '?after=2', {}, ['3']],
    ['?after=, where nothing follows', '?after=3', {}, []],
  ])('resume from %s', async (_, query, headers, ids) => {
    const run = await openRun()
    await happen(run, 'run.queued', 'run.started', 'run.completed')
    expect(await idsOf(run, query, headers)).toEqual(ids)
  })

  test('more events than fit into one read all come', async () => {
    const run = await openRun()
    await happen(run, ...Array.from({ length: 1200 }, () => 'step.started'), 'run.completed')
    expect((await idsOf(run)).at(-1)).toBe('1201')
  })

  test('end after `limit` events, also in an open run, and `after` goes on', async () => {
    const run = await openRun()
    await happen(run, ...Array.from({ length: 300 }, () => 'step.started'))
    expect(await idsOf(run, '?limit=2')).toEqual(['1', '2'])
    expect(await idsOf(run, '?limit=2&after=2')).toEqual(['3', '4'])
    expect(await idsOf(run, '?limit=200&after=100')).toHaveLength(200)
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
      const streams = await Promise.all(Array.from({ length: 20 }, () => open(run)))
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
    const run = await openRun()
    const key = await viewersKey()
    const [revoked, other] = [await open(run, '', key.secret), await open(run)]
    await revoke(key.id)
    await happen(run, 'run.completed')
    expect(await revoked.next()).toBeNull()
    expect(await other.next()).toMatchObject({ event: 'run.completed' })
  })

  test('comments keep a quiet stream open', async () => {
    const run = await openRun()
    const { comments, next } = await open(run)
    const event = next()
    await until('two comments', async () => comments.length > 1)
    expect(comments[0]).toBe('ping')
    await happen(run, 'run.completed')
    expect(await event).toMatchObject({ event: 'run.completed' })
  })

  test('end once the organization requires a factor that the key does not have', async () => {
    const { context } = server
    const stream = await open(await openRun())
    await requireFactors(context, organizationId)
    expect(await stream.next()).toBeNull()
    await context.pool.query(`update organizations set settings = settings - 'require_mfa' where id = $1`, [
      organizationId,
    ])
  })

  test('end for a key that is revoked and for a person who leaves', async () => {
    const run = await openRun()
    const key = await viewersKey()
    const person = await addPerson(server.context, organizationId, 'viewer')
    const streams = [await open(run, '', key.secret), await open(run, '', person.key)]
    await revoke(key.id)
    await server.context.pool.query('delete from memberships where user_id = $1', [person.userId])
    for (const { next } of streams) expect(await next()).toBeNull()
  })

  test('are checked before the stream opens', async () => {
    const path = `/runs/${await openRun()}/events`
    const owner = personOf('owner').userId
    const key = await addKey(server.context, organizationId, owner, ['runs:write'])
    expect((await server.call(key.secret, 'GET', path)).status).toBe(403)
    for (const query of ['after=x', 'limit=0'])
      expect((await call('viewer', 'GET', `${path}?${query}`)).status).toBe(422)
    const headers = { authorization: `Bearer ${keyOf('viewer')}` }
    const head = await fetch(`${server.base}${path}`, { method: 'HEAD', headers })
    const type = 'text/event-stream; charset=utf-8'
    expect([head.status, head.headers.get('content-type')]).toEqual([200, type])
  })

  test('a draining server ends its streams', async () => {
    const stream = await open(await openRun())
    draining.abort()
    expect(await stream.next()).toBeNull()
  })
})
