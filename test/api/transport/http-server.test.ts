import { once } from 'node:events'
import { get, type RequestListener, type Server } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { writeFileSync } from 'node:fs'
import { get as getSecure } from 'node:https'
import { join } from 'node:path'
import { connect as connectTls, type SecureVersion } from 'node:tls'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { createHttpServer, serveMetrics, readTlsKeyPair } from '../../../src/api/http-server.ts'
import { errorAnswer } from '../../../src/api/schemas/common.ts'
import type { Config } from '../../../src/shared/config.ts'
import { createMetrics } from '../../../src/shared/metrics.ts'
import { beat } from '../../../src/governance/upkeep/housekeeping.ts'
import { temporaryFolder } from '../../stack/temporary-folder.ts'
import { selfSigned } from '../../support/self-signed.ts'
import { asAdmin } from '../../support/postgres.ts'
import { oneStep } from '../../governance/runs/engine-fixture.ts'
import { listen, type TestServer } from '../server.ts'
import { useServer } from '../use-server.ts'

/** Answers a GET. For a POST, the application sends the head of its answer first and then reads the request. */
const app: RequestListener = (request, response) => {
  if (request.method === 'POST') response.writeHead(200).write('begun')
  else response.end('fine')
  request.on('error', () => {}).resume()
}

/** Starts a server for the tests here, and returns how to learn its port. */
function usePort(make: () => Server): () => number {
  let server: Server
  let port = 0
  beforeAll(async () => {
    server = make()
    port = Number(new URL(await listen(server)).port)
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return () => port
}
const port = usePort(() => createHttpServer(app))

/** Sends these bytes, and returns everything received until the server closes the connection. */
async function raw(...parts: string[]): Promise<string> {
  const socket = connect(port(), '127.0.0.1')
  let text = ''
  socket.setEncoding('utf8').on('data', (part: string) => (text += part))
  const closed = once(socket, 'close')
  for (const [index, part] of parts.entries()) {
    if (index > 0) await once(socket, 'data')
    socket.write(part)
  }
  await closed
  return text
}

const host = 'Host: localhost\r\n'
const cases: [string, string, number, string][] = [
  ['headers that are too large', `GET / HTTP/1.1\r\n${host}X-A: ${'a'.repeat(20_000)}\r\n\r\n`, 413, 'too_large'],
  ['an address that is too large', `GET /${'a'.repeat(20_000)} HTTP/1.1\r\n${host}\r\n`, 413, 'too_large'],
  ['a request that is not HTTP', 'nonsense\r\n\r\n', 400, 'bad_request'],
  ['a header with a NUL', `GET / HTTP/1.1\r\n${host}X-A: a\0b\r\n\r\n`, 400, 'bad_request'],
  ['two lengths', `GET / HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`, 400, 'bad_request'],
  ['an unknown expectation', `GET / HTTP/1.1\r\n${host}Expect: tea\r\n\r\n`, 400, 'bad_request'],
  ['no host', 'GET / HTTP/1.1\r\n\r\n', 400, 'bad_request'],
  ['no host in HTTP/1.0', 'GET / HTTP/1.0\r\n\r\n', 400, 'bad_request'],
  ['two hosts', `GET / HTTP/1.1\r\n${host}HOST: evil.example\r\n\r\n`, 400, 'bad_request'],
] // prettier-ignore

describe('requests that Node refuses before the application sees them', () => {
  test.each(cases)('%s gets an answer in the usual form of errors', async (_, sent, status, code) => {
    const text = await raw(sent)
    const [head = '', body = ''] = text.split('\r\n\r\n')
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} [A-Z][A-Za-z ]+\r\n`))
    const lines = head.split('\r\n').slice(1)
    const headers = new Headers(lines.map((line) => line.split(': ', 2) as [string, string]))
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
    expect(headers.get('connection')).toBe('close')
    expect(headers.get('content-length')).toBe(String(Buffer.byteLength(body)))
    const answer = errorAnswer.parse(JSON.parse(body))
    expect(answer.error.code).toBe(code)
    expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    expect(answer.meta.request_id).toBe(headers.get('x-request-id'))
  })

  test.each([`Expect: tea\r\n${host}`, ''])('a readable request id is kept (%j)', async (headers) => {
    const text = await raw(`GET / HTTP/1.1\r\nX-Request-Id: mine-1\r\n${headers}\r\n`)
    expect(text).toContain('X-Request-Id: mine-1\r\n')
    expect(text).toContain('"request_id":"mine-1"')
  })

  test('nothing is written into an answer that has begun', async () => {
    const text = await raw(
      `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`,
      'this is no chunk\r\n',
    )
    expect(text).toContain('begun')
    expect(text).not.toContain('bad_request')
  })

  test('a second unreadable request gets the same answer as a first one', async () => {
    const text = await raw(`GET / HTTP/1.1\r\n${host}\r\n`, 'nonsense\r\n\r\n')
    expect(text).toMatch(/^HTTP\/1.1 200 OK\r\n[^]*fine.*HTTP\/1.1 400 Bad Request\r\n/s)
    expect(text).toContain('"code":"bad_request"')
  })

  test('well-formed requests pass, including HTTP/1.0 and `100-continue`', async () => {
    const close = 'Connection: close\r\n\r\n'
    expect(await raw(`GET / HTTP/1.1\r\n${host}${close}`)).toContain('fine')
    expect(await raw(`GET / HTTP/1.0\r\n${host}${close}`)).toContain('fine')
    const continued = await raw(`GET / HTTP/1.1\r\n${host}Expect: 100-continue\r\n${close}`)
    expect(continued).toMatch(/^HTTP\/1.1 100 Continue\r\n[^]*fine/)
  })
})

const pair = readTlsKeyPair(selfSigned)
const ca = pair.cert

describe('an API with a certificate', () => {
  const port = usePort(() => createHttpServer((_request, response) => response.end('fine'), pair))
  const to = () => ({ port: port(), host: '127.0.0.1', ca })

  const protocolUpTo = async (maxVersion: SecureVersion): Promise<string | null> => {
    // The client's minimum version is lowered too, so that it is the server that refuses the connection.
    const socket = connectTls({ ...to(), minVersion: 'TLSv1', maxVersion })
    try {
      await once(socket, 'secureConnect')
      return socket.getProtocol()
    } finally {
      socket.destroy()
    }
  }

  test('answers over TLS 1.3', async () => {
    expect(await protocolUpTo('TLSv1.3')).toBe('TLSv1.3')
    const [response] = await once(getSecure(to()), 'response')
    expect(response.statusCode).toBe(200)
    response.resume()
  })

  test.each(['TLSv1.2', 'TLSv1.1'] as const)('refuses %s, and continues', async (version) => {
    await expect(protocolUpTo(version)).rejects.toMatchObject({
      code: expect.stringMatching(
        /^ERR_SSL_(TLSV1_ALERT_PROTOCOL_VERSION|NO_PROTOCOLS_AVAILABLE|UNSUPPORTED_PROTOCOL)$/,
      ),
    })
    expect(await protocolUpTo('TLSv1.3')).toBe('TLSv1.3')
  })

  test('sends nothing to a client that does not use TLS', async () => {
    const socket = connect(port(), '127.0.0.1')
    let heard = ''
    socket.setEncoding('latin1').on('data', (text: string) => (heard += text))
    socket.on('error', () => {})
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
    await new Promise((resolve) => socket.once('close', resolve))
    expect(heard).not.toContain('HTTP')
  })

  test('answers a request that is not HTTP in the usual form of errors', async () => {
    const socket = connectTls(to())
    let heard = ''
    socket.setEncoding('utf8').on('data', (text: string) => (heard += text))
    socket.write('nonsense\r\n\r\n')
    await once(socket, 'close')
    expect(heard).toMatch(/^HTTP\/1.1 400 [^]*"code":"bad_request"/)
  })
})

describe('the files of the key pair', () => {
  test('an unreadable file is named with its variable', () => {
    const missing = join(temporaryFolder(), 'missing.pem')
    for (const [name, files] of [
      ['TLS_CERT_FILE', { ...selfSigned, certFile: missing }],
      ['TLS_KEY_FILE', { ...selfSigned, keyFile: missing }],
    ] as const)
      expect(() => readTlsKeyPair(files)).toThrow(`${name} \`${missing}\` cannot be read (ENOENT)`)
  })

  test('a pair that is not a certificate with its key is refused, naming both files', () => {
    const other = join(temporaryFolder(), 'other.pem')
    writeFileSync(other, 'no PEM')
    for (const files of [
      { ...selfSigned, certFile: other },
      { ...selfSigned, keyFile: other },
    ])
      expect(() => readTlsKeyPair(files)).toThrow(
        `TLS_CERT_FILE \`${files.certFile}\` and TLS_KEY_FILE \`${files.keyFile}\` are not a PEM certificate with its key`,
      )
  })
})

describe('the server of metrics', () => {
  test('counters are served on a separate port, which serves nothing else', async () => {
    const metrics = createMetrics('api')
    const server = await serveMetrics(metrics, { host: '127.0.0.1', port: 0, names: [] })
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    metrics.decisions.inc({ source: 'agents', verdict: 'deny' })
    metrics.unapprovedCalls.inc()
    const text = await (await fetch(`${base}/metrics`)).text()
    expect(text).toContain('countersign_decisions_total{source="agents",verdict="deny",process="api"} 1')
    expect(text).toContain('countersign_decisions_total{source="agents",verdict="allow",process="api"} 0')
    expect(text).toContain('countersign_agent_unapproved_calls_total{process="api"} 1')
    expect(text).toContain('process_resident_memory_bytes')
    for (const [path, method] of [
      ['/', 'GET'],
      ['/metrics/x', 'GET'],
      ['/metrics', 'POST'],
    ])
      expect((await fetch(`${base}${path}`, { method: method as string })).status).toBe(404)

    // `fetch` does not let a program choose the host.
    const [rebound] = await once(get(`${base}/metrics`, { headers: { host: 'evil.example' } }), 'response')
    expect(rebound.resume().statusCode).toBe(421)
    server.close()
  })
})

describe('GET /health', () => {
  let server: TestServer
  let temporal: () => Promise<boolean>
  let config: Config
  let late = 0
  const { as, keyOf } = useServer(
    (started) => {
      server = started
      config = server.context.config
    },
    {},
    { temporal: () => temporal() },
  )
  beforeEach(async () => {
    temporal = () => Promise.resolve(true)
    server.context.writeTrouble = null
    await server.context.pool.query('delete from process_heartbeats')
  })
  afterEach(() => void Object.assign(server.context, { config }))

  const seen = (secondsAgo: number) =>
    server.context.pool.query(
      `insert into process_heartbeats (process_id, kind, seen_at) values ('w', 'worker', now() - make_interval(secs => $1))`,
      [secondsAgo],
    )
  const asked = () => server.call(null, 'GET', '/health')
  const ok = { database: 'ok', temporal: 'ok', worker: 'ok', disk: 'ok', audit: 'ok' }
  const away = (): never => {
    throw new Error('away')
  }

  test.each<[string, number, () => Promise<boolean>, string, object]>([
    ['ok when everything answers', 5, async () => true, 'ok', {}],
    [
      'degraded without a worker seen in the last 20 seconds',
      ...([25, async () => true, 'degraded', { worker: 'down' }] as const),
    ],
    ['degraded when Temporal says no', 1, async () => false, 'degraded', { temporal: 'down' }],
    ['degraded when Temporal fails', 1, async () => away(), 'degraded', { temporal: 'down' }],
    ['degraded when Temporal throws', 1, away, 'degraded', { temporal: 'down' }],
  ])('is %s', async (_, secondsAgo, check, status, differs) => {
    await seen(secondsAgo)
    temporal = check
    const answer = await asked()
    expect([answer.status, answer.body]).toEqual([200, { status, checks: { ...ok, ...differs } }])
  })

  // The file system of /proc has no free bytes.
  test.each([
    ['is that of no folder', { logFolder: null, dataFolder: '/nowhere/.data' }, null],
    ['of the logs is full', { logFolder: '/proc' }, 'logs'],
    [
      'of the data folder, without a folder for logs, is full',
      { logFolder: null, dataFolder: '/proc' },
      'data',
    ],
  ])('is degraded only when a disk is full: one that %s', async (_, folders, full) => {
    await seen(1)
    Object.assign(server.context, { config: { ...config, ...folders } })
    const checks = { disk: full === null ? 'ok' : 'full', database: 'ok' }
    expect((await asked()).body).toMatchObject({ status: full === null ? 'ok' : 'degraded', checks })
    // The metrics read the disk at most once in five seconds.
    const now = performance.now() + (late += 6_000)
    const clock = jest.spyOn(performance, 'now').mockReturnValue(now)
    const text = await server.context.metrics.text()
    clock.mockRestore()
    if (full === null) expect(text).not.toMatch(/^countersign_disk_free_bytes\{/m)
    else expect(text).toContain(`countersign_disk_free_bytes{folder="${full}",process="api"} 0`)
  })

  test.each([
    ['53100', 'disk_full'],
    ['25006', 'read_only'],
  ])('is degraded when the database answers and refuses to write with %s', async (code, reason) => {
    await seen(1)
    const change = (statement: string) => asAdmin(server.adminUrl, (client) => client.query(statement))
    const refuse = (table: string) =>
      change(`
        create or replace function no_room() returns trigger language plpgsql as $$
        begin raise exception 'could not extend file' using errcode = '${code}'; end $$;
        create trigger no_room before insert or update on ${table} for each row execute function no_room()`)
    await refuse('chain_head')
    const refused = await as('owner', 'POST', '/workflows', { name: 'W', definition: oneStep })
    expect([refused.status, refused.body.error.code]).toEqual([503, 'unavailable'])
    const health = await asked()
    const checks = { ...ok, database: reason }
    expect([health.status, health.body]).toEqual([200, { status: 'degraded', checks }])
    expect(await server.context.metrics.text()).toContain(
      `failed_batches_total{reason="${reason}",process="api"} 1`,
    )
    // If no request writes, the process's own heartbeat detects the problem.
    server.context.writeTrouble = null
    await refuse('process_heartbeats')
    await expect(beat(server.context, 'api')).rejects.toThrow('could not extend file')
    expect((await asked()).body.checks.database).toBe(reason)
    await change('drop function no_room cascade')
  })

  test.each([
    [29_000, 'unknown'],
    [31_000, 'down'],
  ])('does not blame the workers for a database that refused %d ms ago: %s', async (ago, worker) => {
    await seen(25)
    server.context.writeTrouble = { at: performance.now() - ago, reason: 'disk_full' }
    expect((await asked()).body.checks.worker).toBe(worker)
  })

  test('is 503 when the database cannot be reached, and all other routes say so too', async () => {
    await server.context.pool.end()
    Object.assign(server.context.pool, {
      connect: () => Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })),
      end: () => Promise.resolve(),
    })
    const health = await asked()
    expect(health.status).toBe(503)
    expect(health.body.checks).toMatchObject({ database: 'down', worker: 'unknown' })
    const me = await server.call(keyOf('owner'), 'GET', '/me')
    expect([me.status, me.body.error.code]).toEqual([503, 'unavailable'])
    expect(me.headers.get('retry-after')).toBe('1')
  })
})
