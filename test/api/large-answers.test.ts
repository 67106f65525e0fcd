import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { outputPlace } from '../../src/governance/sealing/places.ts'
import { testKey } from '../governance/support.ts'
import { Agent } from './agents/agent.ts'
import { startTestServer, type TestServer } from './server.ts'

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

  test.each(['cursor=1', 'cursor=bm8', 'limit=0', 'limit=201', 'limit=x'])('refuses `%s`', async (query) => {
    expect((await read(`${path}?${query}`)).status).toBe(422)
  })

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
      const { status } = await fetch(`${process.base}/me`, { headers: { authorization: `Bearer ${key()}` } })
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
  const file = fileURLToPath(new URL('serving-process.ts', import.meta.url))
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
