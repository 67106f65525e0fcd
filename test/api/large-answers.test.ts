import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { testKey } from '../governance/support.ts'
import { Agent } from './agents/agent.ts'
import { startTestServer, type TestServer } from './server.ts'

/* Answers of any size are sent as fast as they are read, and are never whole in memory. */

let server: TestServer
let path: string
const key = () => server.identities.users.admin.api_key
const decisions = 3_000

beforeAll(async () => {
  server = await startTestServer()
  const agent = new Agent(server, server.identities.users.member.api_key)
  const { session_run_id: run } = await agent.ask('Read', { file_path: 'a' })
  // 24 MB of explanations.
  await server.context.pool.query(
    `insert into decisions (id, organization_id, run_id, seq, tool, side_effect, verdict, matched_rules, reason, explanation,
       labels, label_sources, policy_version, decided_at, session_id, requested_by, bytes)
     select 'dec_' || n, organization_id, run_id, n, tool, side_effect, verdict, matched_rules, reason, repeat('x', 8000),
       labels, label_sources, policy_version, decided_at, session_id, requested_by, 8500
     from decisions, generate_series(2, $2) as n where run_id = $1`,
    [run, decisions],
  )
  path = `/runs/${run}/authorization`
})
afterAll(() => server?.close())

describe('a receipt', () => {
  test('is whole by default, and byte for byte what one text would be', async () => {
    const { text, body, status } = await server.call(key(), 'GET', path)
    expect(status).toBe(200)
    expect(text).toBe(JSON.stringify(body))
    expect(Object.keys(body)).not.toContain('next_cursor')
    expect(body.decisions.map(({ seq }: { seq: number }) => seq)).toEqual(
      Array.from({ length: decisions }, (_, index) => index + 1),
    )
  })

  test('has pages, which together are the whole', async () => {
    const seen: number[] = []
    let cursor = ''
    do {
      const { body } = await server.call(key(), 'GET', `${path}?limit=1300${cursor}`)
      seen.push(...body.decisions.map(({ seq }: { seq: number }) => seq))
      cursor = body.next_cursor === null ? '' : `&cursor=${body.next_cursor}`
    } while (cursor !== '')
    expect(seen).toEqual(Array.from({ length: decisions }, (_, index) => index + 1))
  })

  test.each(['cursor=1', 'cursor=bm8', 'limit=0', 'limit=10001', 'limit=x'])(
    'refuses `%s`',
    async (query) => {
      expect((await server.call(key(), 'GET', `${path}?${query}`)).status).toBe(422)
    },
  )

  test('small, still says its length', async () => {
    const { headers } = await server.call(key(), 'GET', `${path}?limit=2`)
    expect(Number(headers.get('content-length'))).toBeGreaterThan(100)
  })

  test('is sent to many slow clients, and some that go, with a heap smaller than two of it', async () => {
    const process = await startServing()
    const serve = async (): Promise<void> => {
      const slow = await Promise.all(Array.from({ length: 30 }, () => begin(process.base)))
      const [gone, patient] = [slow.slice(0, 10), slow[10] as Socket]
      for (const socket of gone) socket.destroy()
      // Nobody keeps a connection of the database while nothing is read.
      const { rows } = await server.context.pool.query(
        "select count(*)::int as count from pg_stat_activity where state = 'idle in transaction' and datname = current_database()",
      )
      expect(rows[0].count).toBe(0)
      const whole = await fetch(`${process.base}${path}`, { headers: { authorization: `Bearer ${key()}` } })
      expect((await whole.text()).length).toBeGreaterThan(decisions * 8_000)
      expect(await lengthOf(patient)).toBeGreaterThan(decisions * 8_000)
      for (const socket of slow) socket.destroy()
    }
    try {
      await Promise.race([serve(), process.ended])
    } finally {
      process.child.stdin?.end()
    }
  })
})

/** A process whose heap has room for the service and not for two such answers. */
async function startServing(): Promise<{
  child: ChildProcess
  base: string
  /** Rejected when it ends. */
  ended: Promise<never>
}> {
  const file = fileURLToPath(new URL('serving-process.ts', import.meta.url))
  const { url } = server.context.config.database
  const child = spawn('node', ['--max-old-space-size=110', file, url, testKey.toString('base64')], {
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

/** Asks for the receipt and reads its beginning. */
async function begin(base: string): Promise<Socket> {
  const socket = connect(Number(new URL(base).port), '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(
    `GET ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key()}\r\nconnection: close\r\n\r\n`,
  )
  await once(socket, 'readable')
  socket.read(1)
  return socket
}

/** Reads the rest. */
async function lengthOf(socket: Socket): Promise<number> {
  let length = 0
  for await (const part of socket) length += (part as Buffer).length
  return length
}
