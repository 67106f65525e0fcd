import { createServer, type IncomingHttpHeaders, request as httpRequest, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text as textOf } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createApp } from '../../../src/api/app.ts'
import type { Permit } from '../../../src/governance/limits/fair-share.ts'
import { limits } from '../../../src/governance/limits/shares.ts'
import { addKey, addPerson, everyScope, sessionCookie } from '../fixtures.ts'
import { useServer } from '../use-server.ts'
import type { Answer, TestServer } from '../server.ts'
import { agentWorld, type AgentWorld } from '../agents/agent.ts'

/*
 * A proxy in front of the API, tested with real connections. Each connection comes from another loopback address. The
 * API also listens on IPv6, where IPv4 addresses arrive in IPv6 form.
 */

const [trusted, inner, stranger, ana, ben] = [
  '127.0.0.3',
  '127.0.0.4',
  '127.0.0.5',
  '127.0.0.11',
  '127.0.0.12',
]
let server: TestServer
let api: Server
let port: number
const proxies: Server[] = []
const { personOf, keyOf } = useServer(
  async (started) => {
    server = started
    const draining = new AbortController().signal
    const services = { temporal: async () => true, draining, mail: async () => {} }
    api = createServer(createApp(server.context, services))
    port = await listening(api, '::')
  },
  {
    TRUSTED_PROXY_HOSTS: `${trusted}, 127.0.0.4/32, fd00::/16`,
    ALLOWED_HOSTS: 'countersign.example, UPSTREAM, 10.0.0.7,[fd00::7]',
  },
)
afterAll(async () => {
  for (const each of [api, ...proxies]) {
    each.closeAllConnections()
    await new Promise((resolve) => each.close(resolve))
  }
})
beforeEach(() => server.context.pool.query('delete from auth_rate_limits'))

async function listening(each: Server, host: string): Promise<number> {
  await new Promise<void>((resolve) => each.listen(0, host, resolve))
  return (each.address() as AddressInfo).port
}

/** A proxy that appends the client's address to `X-Forwarded-For`, and claims that the client used TLS. */
async function proxy(own: string, next: () => number): Promise<number> {
  const each = createServer((incoming, answer) => {
    const seen = incoming.socket.remoteAddress ?? ''
    const before = incoming.headers['x-forwarded-for']
    const headers = {
      ...incoming.headers,
      'x-forwarded-for': before === undefined ? seen : `${String(before)}, ${seen}`,
      'x-forwarded-proto': 'https',
    }
    const { method = '', url: path = '' } = incoming
    const to = { port: next(), host: '127.0.0.1', localAddress: own }
    const passed = httpRequest({ ...to, method, path, headers })
    passed.on('response', (response) => {
      answer.writeHead(response.statusCode ?? 502, response.headers)
      response.pipe(answer)
    })
    incoming.pipe(passed)
  })
  proxies.push(each)
  return listening(each, '127.0.0.1')
}

interface Sent {
  readonly status: number
  readonly headers: IncomingHttpHeaders
}

function send(
  from: string,
  to: number,
  path: string,
  {
    body,
    headers = {},
    method = body === undefined ? 'GET' : 'POST',
  }: { body?: unknown; headers?: object; method?: string },
): Promise<Sent> {
  return new Promise((resolve, reject) => {
    const all = { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers }
    const ends = { port: to, host: '127.0.0.1', localAddress: from }
    const sent = httpRequest({ ...ends, method, path, headers: all })
    sent.on('error', reject)
    sent.on('response', (response) => {
      const { statusCode: status = 0, headers: given } = response
      response.resume().on('end', () => resolve({ status, headers: given }))
    })
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

/** Sends `count` password reset requests, and returns how many pass. The limit is 5 per minute and address. */
async function letThrough(
  from: string,
  to: number,
  count: number,
  headers: (turn: number) => object = () => ({}),
) {
  let passed = 0
  for (let turn = 0; turn < count; turn += 1) {
    const sent = { body: { email: 'nobody@acme.test' }, headers: headers(turn) }
    const { status } = await send(from, to, '/api/auth/request-password-reset', sent)
    if (status === 200) passed += 1
    else expect(status).toBe(429)
  }
  return passed
}
const spoofed = (turn: number) => ({
  'x-forwarded-for': `198.51.100.${turn}`,
  'x-real-ip': `198.51.100.${turn}`,
})

/** Each change must differ from the one before, because a change to the present value is not audited. */
let threshold = 1

/** Makes a change from `from` through `to`, and returns the address that the audit log records. */
async function auditedAddress(from: string, to: number, headers: object = {}): Promise<string | null> {
  const { organization_id: id } = server.identities
  threshold = (threshold % 9) + 1
  const { status } = await send(from, to, `/organizations/${id}/governance`, {
    method: 'PATCH',
    body: { approval_threshold: threshold },
    headers: { authorization: `Bearer ${keyOf('owner')}`, ...headers },
  })
  expect(status).toBe(200)
  const { rows } = await server.context.pool.query(
    'select ip_address from audit_events where organization_id = $1 order by seq desc limit 1',
    [id],
  )
  return rows[0].ip_address
}

describe('behind a trusted proxy', () => {
  let front: number
  beforeAll(async () => {
    front = await proxy(trusted, () => port)
  })

  test('each client has separate limits', async () => {
    expect(await letThrough(ana, front, 7)).toBe(5)
    expect(await letThrough(ben, front, 7)).toBe(5)
  })

  test('headers that a client adds before the proxy change nothing', async () => {
    expect(await letThrough(ana, front, 7, spoofed)).toBe(5)
    expect(await auditedAddress(ana, front, { 'x-forwarded-for': '198.51.100.9' })).toBe(ana)
    expect(await auditedAddress(ana, front, { 'x-forwarded-for': `198.51.100.9, ${inner}` })).toBe(ana)
  })

  test('the audit log names the client, also through two proxies', async () => {
    expect(await auditedAddress(ana, front)).toBe(ana)
    const outer = await proxy(inner, () => front)
    expect(await auditedAddress(ben, outer)).toBe(ben)
    const untrusted = await proxy(stranger, () => front)
    expect(await auditedAddress(ben, untrusted)).toBe(stranger)
  })

  test('a session’s page has an https address, as the proxy says', async () => {
    const cookie = await sessionCookie(server.context, personOf('owner').userId)
    const make = (to: number, origin: string, headers: object = {}) =>
      send(ana, to, '/organizations', {
        body: { name: 'Acme' },
        headers: { cookie, origin, host: 'countersign.example', ...headers },
      }).then(({ status }) => status)
    expect(await make(front, 'https://countersign.example')).toBe(201)
    expect(await make(front, 'http://countersign.example')).toBe(401)
    expect(await make(port, 'https://countersign.example', { 'x-forwarded-proto': 'https' })).toBe(401)
    const strange = { 'x-forwarded-proto': 'strange', 'x-forwarded-for': ana }
    const asProxy = await send(trusted, port, '/organizations', {
      body: { name: 'Acme' },
      headers: { cookie, origin: 'null', host: 'countersign.example', ...strange },
    })
    expect(asProxy.status).toBe(401)
  })
})

describe('from all others', () => {
  test('forwarded headers are ignored', async () => {
    expect(await letThrough(ana, port, 7, spoofed)).toBe(5)
    expect(await auditedAddress(ana, port, { 'x-forwarded-for': '198.51.100.9' })).toBe(ana)
    expect(await auditedAddress(ana, port, { forwarded: 'for=198.51.100.9' })).toBe(ana)
    const untrusted = await proxy(stranger, () => port)
    expect(await letThrough(ben, untrusted, 3)).toBe(3)
    expect(await letThrough(ana, untrusted, 4)).toBe(2)
    expect(await auditedAddress(ana, untrusted)).toBe(stranger)
  })
})

describe('addresses that a trusted proxy may send', () => {
  const says = (value: string) => ({ 'x-forwarded-for': value })

  test.each([
    ['an IPv6 address', '2001:db8::1', '2001:db8::1'],
    ['an IPv6 address in capitals', '2001:DB8::1', '2001:db8::1'],
    ['an IPv4 address in IPv6 form', '::ffff:192.0.2.7', '192.0.2.7'],
    ['an address with its port', '192.0.2.7:50123', '192.0.2.7'],
    ['an IPv6 address with its port', '[2001:db8::1]:50123', '2001:db8::1'],
    ['a client behind a trusted IPv6 proxy', '2001:db8::1, fd00::7', '2001:db8::1'],
    ['no address', 'unknown', trusted],
    ['nothing', '', trusted],
    ['something long', 'x'.repeat(5000), trusted],
  ])('%s', async (_, value, expected) => {
    expect(await auditedAddress(trusted, port, says(value))).toBe(expected)
  })

  test('IPv6 clients of one network share limits, those of another network do not', async () => {
    expect(await letThrough(trusted, port, 7, (turn) => says(`2001:db8:0:1::${turn + 1}`))).toBe(5)
    expect(await letThrough(trusted, port, 2, () => says('2001:db8:0:2::1'))).toBe(2)
  })

  test('a session keeps the whole address', async () => {
    const { email, password, user_id: userId } = server.identities.users.viewer
    const headers = { ...says('2001:db8::abcd'), origin: `http://127.0.0.1:${port}` }
    const sent = { body: { email, password }, headers }
    expect((await send(trusted, port, '/api/auth/sign-in/email', sent)).status).toBe(200)
    const { rows } = await server.context.pool.query(
      'select ip_address from auth_sessions where user_id = $1',
      [userId],
    )
    expect(rows).toEqual([{ ip_address: '2001:db8::abcd' }])
  })
})

describe('the host of a request', () => {
  const asked = async (headers: object, { from = stranger, path = '/health' } = {}) =>
    (await send(from, port, path, { headers })).status

  test.each([
    ...['localhost', 'LOCALHOST:9', '127.0.0.1:1', '127.9.9.9', '[::1]:8080', '[0:0:0:0:0:0:0:1]'],
    ...['[::ffff:127.0.0.1]', 'countersign.example', 'Countersign.Example:8443', 'upstream:8080'],
    ...['10.0.0.7', '[fd00::7]'],
  ])('`%s` is served', async (host) => expect(await asked({ host })).toBe(200))

  test.each([
    ...['rebound.evil.example:8080', 'localhost.evil.example', 'evil.localhost', 'xcountersign.example'],
    ...['countersign.example.evil.example', 'countersign.example@evil.example', '127.0.0.1.evil.example'],
    ...['evil.example#countersign.example', 'countersign.example:80:80', '127.0.0.1.', '127.1', '[::1'],
    ...['countersign.example, evil.example', '2130706433', '0.0.0.0', '[::]', '10.0.0.8'],
  ])('`%s` gets 421', async (host) => expect(await asked({ host })).toBe(421))

  test('is checked before anything else: for pages, sign-up, files and keys alike', async () => {
    const host = 'rebound.evil.example'
    const paths = ['/', '/console/', '/console/style.css', '/docs', '/openapi.json', '/nothing', '/api/v1/me']
    const authorization = `Bearer ${keyOf('owner')}`
    for (const path of paths)
      expect([path, await asked({ host, authorization }, { path })]).toEqual([path, 421])
    const body = { name: 'r', email: 'r@evil.example', password: 'aaaaaaaaaaaa' }
    const headers = { host, origin: `http://${host}` }
    expect((await send(stranger, port, '/api/auth/sign-up/email', { body, headers })).status).toBe(421)
    const { rows } = await server.context.pool.query("select from users where email = 'r@evil.example'")
    expect(rows).toEqual([])
  })

  test('the answer says what to set', async () => {
    const socket = connect(port, '127.0.0.1')
    socket.end('GET /api/v1/me HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n')
    const text = await textOf(socket)
    expect(text).toMatch(/^HTTP\/1.1 421 Misdirected Request\r\n/)
    const message = expect.stringMatching(/`evil.example`.*ALLOWED_HOSTS/)
    const error = { code: 'misdirected_request', message }
    expect(JSON.parse(text.split('\r\n\r\n')[1] ?? '')).toMatchObject({ error })
  })

  test('a client cannot name another one in the first line, or beside a trusted proxy', async () => {
    const [ours, other] = ['countersign.example', 'evil.example']
    expect(await asked({ host: ours }, { path: `http://${other}/health` })).toBe(421)
    expect(await asked({ host: ours }, { path: `http://${ours}/health` })).toBe(200)
    expect(await asked({ host: other }, { path: `http://${ours}/health` })).toBe(421)
    // A header that anybody can send neither opens nor closes the door.
    expect(await asked({ host: other, 'x-forwarded-host': ours, forwarded: `host=${ours}` })).toBe(421)
    expect(await asked({ host: ours, 'x-forwarded-host': other })).toBe(200)
    // A trusted proxy that writes its own name for this service says what the client sent.
    for (const [host, status] of [
      [ours, 200],
      [other, 421],
      [`${ours}, ${other}`, 421],
    ] as const)
      expect(await asked({ host: 'upstream', 'x-forwarded-host': host }, { from: trusted })).toBe(status)
  })
})

describe('long requests', () => {
  /* Backtests, analyses and comparisons wait for their turn. Meanwhile, the caller may lose the rights. */

  let server: TestServer
  let world: AgentWorld
  useServer(async (started) => {
    server = started
    world = await agentWorld(server)
    await world.change('POST', '/rules', { name: 'no mail', verdict: 'deny', tools: ['mail_*'] })
  })

  const routes = {
    backtest: (key: string) => send(key, 'POST', 'backtest', { rules: [] }),
    analysis: (key: string) => send(key, 'GET', 'analysis'),
    diff: (key: string) => send(key, 'POST', 'diff', { from: 'active', to: [] }),
  }
  const send = (key: string, method: string, name: string, body?: unknown) =>
    server.call(key, method, `/organizations/${world.organizationId}/rules/${name}`, body)

  interface Asker {
    readonly id: string
    readonly secret: string
    readonly userId: string
  }
  let asker: Asker
  beforeEach(async () => {
    const { userId } = await addPerson(server.context, world.organizationId, 'admin')
    asker = { userId, ...(await addKey(server.context, world.organizationId, userId, everyScope)) }
  })

  /** Takes every permit of the organization for long work. No other organization is served, so it has two permits. */
  const takeAll = (): Promise<Permit[]> =>
    Promise.all([1, 2].map(() => server.context.shares.long.enter(world.organizationId)))

  const told = ({ status, body }: Answer) => [status, body.error?.code]

  /**
   * Sends one request more than may wait. The answer to that request shows that the others wait. Then changes the rights
   * of the caller, and lets the requests begin. Returns the refusal and the answers of the others.
   */
  async function whileTheyWait(ask: (key: string) => Promise<Answer>, change: () => Promise<unknown>) {
    const permits = await takeAll()
    try {
      const asked = Array.from({ length: limits.long.line + 1 }, async (_, index) => ({
        index,
        answer: await ask(asker.secret),
      }))
      const first = await Promise.race(asked)
      await change()
      for (const permit of permits) permit.release()
      const all = await Promise.all(asked)
      return { refused: first.answer, others: all.filter(({ index }) => index !== first.index) }
    } finally {
      for (const permit of permits) permit.release()
    }
  }

  const ways: Record<string, { change: (asker: Asker) => string; answer: [number, string] }> = {
    'the key was revoked': {
      change: ({ id }) => `update api_keys set revoked_at = now() where id = '${id}'`,
      answer: [401, 'unauthenticated'],
    },
    'the key lost a scope': {
      change: ({ id }) => `update api_keys set scopes = '{runs:read}' where id = '${id}'`,
      answer: [403, 'missing_scope'],
    },
    'the person is a viewer': {
      change: ({ userId }) => `update memberships set role = 'viewer' where user_id = '${userId}'`,
      answer: [403, 'insufficient_role'],
    },
    'the person was removed': {
      change: ({ userId }) => `delete from memberships where user_id = '${userId}'`,
      answer: [404, 'not_found'],
    },
  }

  describe.each(Object.keys(routes) as (keyof typeof routes)[])('%s', (name) => {
    test.each(Object.entries(ways))('few requests wait, and get no data after %s', async (_, way) => {
      const { refused, others } = await whileTheyWait(routes[name], () =>
        server.context.pool.query(way.change(asker)),
      )
      expect(told(refused)).toEqual([429, 'rate_limited'])
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(others.map(({ answer }) => told(answer))).toEqual(others.map(() => way.answer))
    })

    test('requests that waited are answered', async () => {
      const { others } = await whileTheyWait(routes[name], async () => {})
      expect(others.map(({ answer }) => answer.status)).toEqual(others.map(() => 200))
    })
  })

  test.each<[keyof typeof routes, string, object, string]>([
    ['diff', '/rules', { name: 'no web', verdict: 'deny', tools: ['WebFetch'] }, 'no web'],
    ['analysis', '/rules', { name: 'letters', verdict: 'deny', tools: ['mail_send'] }, 'letters'],
    ['backtest', '/tool-policies', { tool_name: 'NotebookRead', allowed: false }, '"policy_decided"'],
  ])('a %s that waited reads what was saved meanwhile', async (name, path, body, told) => {
    await world.agent().ask('NotebookRead', {})
    const { others } = await whileTheyWait(routes[name], () => world.change('POST', path, body))
    for (const { answer } of others) expect(answer.text).toContain(told)
  })
})
