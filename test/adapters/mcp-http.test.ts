import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, chmodSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { freePort } from '../../src/stack/ports.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { selfSigned } from '../support/self-signed.ts'
import { realServers } from './peers.ts'
import { startGateway, textOf, odd, type Wire, type Gateway } from './run-mcp.ts'
import { reply, denied, type ScriptedService } from './scripted-service.ts'
import { sharedGateway, useGateways } from './use-service.ts'

interface HttpAsked {
  readonly verb: string
  readonly headers: IncomingHttpHeaders
  /** The message of a POST; null for other verbs. */
  readonly message: Wire
}

/** Answers a request itself, or returns false so that the server sends its usual answer. */
type HttpScript = (asked: HttpAsked, response: ServerResponse) => boolean | void

interface HttpUpstream {
  readonly url: string
  readonly asked: HttpAsked[]
  script: HttpScript
  close(): Promise<void>
}

async function httpUpstream(tls = false): Promise<HttpUpstream> {
  const serve = async (verb: string, headers: IncomingHttpHeaders, body: Wire, response: ServerResponse) => {
    const asked = { verb, headers, message: body }
    upstream.asked.push(asked)
    if (upstream.script(asked, response) !== false) return
    if (verb !== 'POST' || body.id === undefined) {
      response.writeHead(verb === 'POST' ? 202 : verb === 'DELETE' ? 200 : 405).end()
      return
    }
    const result = usual(body, headers)
    const session = body.method === 'initialize' ? { 'mcp-session-id': 'session-1' } : {}
    response.writeHead(200, { 'content-type': 'application/json', ...session })
    // Written over several lines, which JSON allows.
    response.end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }, null, 2))
  }
  const listener: Parameters<typeof createServer>[1] = (request, response) => {
    const { method = '', headers } = request
    const body = method === 'POST' ? json(request) : Promise.resolve(null)
    body.then((read) => serve(method, headers, read, response)).catch(() => response.destroy())
  }
  const server = tls
    ? createTlsServer(
        { key: readFileSync(selfSigned.keyFile), cert: readFileSync(selfSigned.certFile) },
        listener,
      )
    : createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const upstream: HttpUpstream = {
    url: `${tls ? 'https://localhost' : 'http://127.0.0.1'}:${(server.address() as AddressInfo).port}/mcp`,
    asked: [],
    script: () => false,
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
  return upstream
}

function usual({ method, params }: Wire, headers: IncomingHttpHeaders): object {
  if (method === 'initialize') {
    const serverInfo = { name: 'scripted', version: '1' }
    return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo }
  }
  if (method === 'tools/list') return { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] }
  return { content: [{ type: 'text', text: JSON.stringify({ ...params, token: headers.authorization }) }] }
}

/** One server-sent event. */
const event = (message: object | null, id?: string, more = ''): string =>
  `${id === undefined ? '' : `id: ${id}\n`}${more}data: ${message === null ? '' : JSON.stringify(message)}\n\n`
const stream = { 'content-type': 'text/event-stream' }

const isCall = ({ message }: { message: Wire }): boolean => message?.method === 'tools/call'

/** The names of all tools that the gateway offers. */
const names = async (gateway: Gateway): Promise<string[]> =>
  (await gateway.tools()).map((tool: Wire) => tool.name)

let service: ScriptedService
let server: HttpUpstream
/** The same server with TLS. */
let secure: HttpUpstream
useGateways((started) => ({ service } = started))
beforeAll(async () => {
  ;[server, secure] = [await httpUpstream(), await httpUpstream(true)]
})
beforeEach(() => {
  for (const each of [server, secure]) {
    each.asked.length = 0
    each.script = () => false
  }
})
afterAll(() => Promise.all([server.close(), secure.close()]))

/** Starts a gateway with the server `web`. `entry` changes its entry. */
const start = (entry: object = {}, env: NodeJS.ProcessEnv = {}): Promise<Gateway> =>
  startGateway({
    servers: { web: { type: 'http', url: server.url, ...entry } },
    env: { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test', ...env },
  })
/** The calls that `server` has received. */
const calls = (): HttpAsked[] => server.asked.filter(isCall)

/** A gateway whose tools are listed. */
const listed = async (entry: object = {}): Promise<Gateway> => {
  const gateway = await start(entry)
  await gateway.tools()
  return gateway
}

/** MCP's own example server, over streamable HTTP. */
async function everything(): Promise<{ url: string; close: () => void }> {
  const { command, args = [] } = (await realServers(temporaryFolder())).everything
  const port = await freePort()
  const words = args.map((word) => (word === 'stdio' ? 'streamableHttp' : word))
  const child = spawn(command, words, { env: { PORT: String(port) }, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
  await until('the server listens', () => said.includes(String(port)))
  return { url: `http://127.0.0.1:${port}/mcp`, close: () => child.kill('SIGKILL') }
}

test('a call with the credentials of its entry, the session and the version; the agent’s key goes nowhere', async () => {
  const headers = { Authorization: 'Bearer ${BOARD_TOKEN}' }
  const gateway = await start({ headers }, { BOARD_TOKEN: 'board-secret' })
  expect(await names(gateway)).toEqual(['web__echo'])
  expect(JSON.parse(textOf(await gateway.call('web__echo', { a: 1 })))).toMatchObject({
    name: 'echo',
    arguments: { a: 1 },
    token: 'Bearer board-secret',
  })
  expect(calls()[0]?.headers).toMatchObject({
    'mcp-session-id': 'session-1',
    'mcp-protocol-version': '2025-11-25',
    accept: 'application/json, text/event-stream',
  })
  expect(server.asked[0]?.headers['mcp-session-id']).toBeUndefined()
  expect(server.asked[1]?.message.method).toBe('notifications/initialized')
  expect(JSON.stringify(server.asked)).not.toContain('csk_test')
  expect(JSON.stringify(service.asked)).not.toContain('board-secret')
  await gateway.close()
  expect(server.asked.find(({ verb }) => verb === 'DELETE')).toMatchObject({
    headers: { 'mcp-session-id': 'session-1', authorization: 'Bearer board-secret' },
  })
  expect(gateway.stderr).not.toContain('board-secret')
})

test('the real server of the SDK: a call, progress, a resource, a prompt, and the end of its session', async () => {
  const real = await everything()
  try {
    const gateway = await start({ url: real.url })
    expect(await names(gateway)).toContain('web__echo')
    expect(textOf(await gateway.call('web__echo', { message: 'hello' }))).toBe('Echo: hello')
    const steps = { duration: 0.3, steps: 3 }
    const long = await gateway.call('web__trigger-long-running-operation', steps, { progressToken: 'p' })
    expect(textOf(long)).toContain('completed')
    expect(gateway.told('notifications/progress').length).toBeGreaterThan(0)
    const { resources } = (await gateway.request('resources/list')).result
    const { result } = await gateway.request('resources/read', { uri: resources[0].uri })
    expect(result.contents).toHaveLength(1)
    const { prompts } = (await gateway.request('prompts/list')).result
    expect((await gateway.request('prompts/get', { name: prompts[0].name })).result.messages).toBeDefined()
    await gateway.close()
    expect(gateway.stderr).toBe('')
  } finally {
    real.close()
  }
})

test('a denied call does not reach the server', async () => {
  service.script = (_asked, socket) => reply(socket, 200, denied)
  const gateway = await listed()
  expect(textOf(await gateway.call('web__echo'))).toContain('no-egress')
  expect(calls()).toEqual([])
})

describe('sessions', () => {
  test('a session that the server has ended is replaced, and the call is not sent twice by itself', async () => {
    let sessions = 0
    server.script = ({ verb, message, headers }, response) => {
      if (message?.method === 'initialize') {
        sessions += 1
        const result = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: {} }
        response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': `s-${sessions}` })
        response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }))
        return true
      }
      if (headers['mcp-session-id'] !== 's-1' || verb !== 'POST' || message.method !== 'tools/call')
        return false
      response.writeHead(404).end()
      return true
    }
    const gateway = await listed()
    expect(textOf(await gateway.call('web__echo', { a: 1 }))).toBe(
      'countersign: server `web` has ended its session: a new one is opened, so call again',
    )
    await until('the new session has its tools', async () => (await names(gateway)).length === 1)
    expect(JSON.parse(textOf(await gateway.call('web__echo', { a: 2 })))).toMatchObject({
      arguments: { a: 2 },
    })
    expect(calls().map(({ headers }) => headers['mcp-session-id'])).toEqual(['s-1', 's-2'])
    expect(calls()[1]?.headers['mcp-protocol-version']).toBe('2025-06-18')
  })

  test('a server that answers 404 to GET is used on', async () => {
    server.script = ({ verb }, response) => (verb === 'GET' ? void response.writeHead(404).end() : false)
    const gateway = await listed()
    await until('its stream is asked for', () => server.asked.some(({ verb }) => verb === 'GET'))
    expect(textOf(await gateway.call('web__echo'))).toContain('echo')
    expect(server.asked.filter(({ message }) => message?.method === 'initialize')).toHaveLength(1)
  })

  test('a server that is down at first is tried again', async () => {
    let tries = 0
    server.script = (_asked, response) => {
      tries += 1
      if (tries > 1) return false
      response.writeHead(503).end()
      return true
    }
    const gateway = await start({})
    await until('its tools are there', async () => (await names(gateway)).length === 1)
    expect(gateway.stderr).toContain('server `web` answers 503')
  })

  test('a call that the client gives up is cancelled at the server', async () => {
    server.script = (asked) => isCall(asked)
    const gateway = await listed()
    const id = gateway.ask('tools/call', { name: 'web__echo' })
    await until('the call arrives', () => calls().length === 1)
    gateway.send({ method: 'notifications/cancelled', params: { requestId: id } })
    const cancelled = () => server.asked.find(({ message }) => message?.method === 'notifications/cancelled')
    await until('it is cancelled', () => cancelled() !== undefined)
    expect(cancelled()?.message.params.requestId).toBe(calls()[0]?.message.id)
    await until('its outcome is reported', () => service.asked.some(({ path }) => path.endsWith('/observe')))
  })

  test('a call that takes longer than `timeout` ends with an error', async () => {
    server.script = (asked) => isCall(asked)
    const gateway = await listed({ timeout: 50 })
    expect(textOf(await gateway.call('web__echo'))).toBe(
      'countersign: server `web` did not answer within 0.05 s',
    )
  })
})

describe('an answer as a stream of events', () => {
  test('messages before the answer: progress, and a question to the client with its answer', async () => {
    server.script = (asked, response) => {
      if (!isCall(asked)) return false
      const { id, params } = asked.message
      const progress = { progressToken: params['_meta'].progressToken, progress: 1 }
      response.writeHead(200, stream)
      response.write(event({ jsonrpc: '2.0', method: 'notifications/progress', params: progress }))
      response.write(event({ jsonrpc: '2.0', id: 'roots', method: 'roots/list' }))
      void until('the answer arrives', () =>
        server.asked.some(({ message }) => message?.id === 'roots'),
      ).then(() => response.end(event({ jsonrpc: '2.0', id, result: { content: [] } })))
      return true
    }
    const gateway = await startGateway({
      servers: { web: { type: 'http', url: server.url } },
      env: { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' },
      capabilities: { roots: {} },
    })
    await gateway.tools()
    const id = gateway.ask('tools/call', { name: 'web__echo', _meta: { progressToken: 'p' } })
    await until('the question arrives', () => gateway.told('roots/list').length === 1)
    gateway.send({ id: gateway.told('roots/list')[0].id, result: { roots: [] } })
    expect((await gateway.answer(id)).result).toEqual({ content: [] })
    expect(gateway.told('notifications/progress')[0].params).toEqual({ progressToken: 'p', progress: 1 })
  })

  test.each(['\n', '\r\n', '\r'])('lines that end with %j, a comment, and data in two lines', async (end) => {
    server.script = (asked, response) => {
      if (!isCall(asked)) return false
      const answer = { jsonrpc: '2.0', id: asked.message.id, result: { content: ['x'] } }
      const [first, ...rest] = JSON.stringify(answer, null, 1).split('\n')
      const data = ['', `data: ${first}`, `data: ${rest.join('')}`, '', '']
      response.writeHead(200, stream).end([': hello', 'event: ping', 'data: no', ...data].join(end))
      return true
    }
    const gateway = await listed()
    expect(await gateway.call('web__echo')).toEqual({ content: ['x'] })
  })

  test('that ends early goes on after its last event, as often as it brings something new', async () => {
    let number: unknown
    let rests = 0
    server.script = (asked, response) => {
      if (isCall(asked)) {
        number = asked.message.id
        response.writeHead(200, stream).end(event(null, 'e-0', 'retry: 10\n'))
        return true
      }
      const last = asked.headers['last-event-id']
      if (asked.verb !== 'GET' || last === undefined) return false
      rests += 1
      expect(last).toBe(`e-${rests - 1}`)
      response.writeHead(200, stream)
      response.end(
        rests < 15
          ? event(null, `e-${rests}`)
          : event({ jsonrpc: '2.0', id: number, result: { content: ['late'] } }, 'e-end'),
      )
      return true
    }
    const gateway = await listed()
    expect(await gateway.call('web__echo')).toEqual({ content: ['late'] })
    expect(calls()).toHaveLength(1)
  })

  test.each([
    ['without an event that it could go on after', event({ jsonrpc: '2.0', method: 'x' })],
    ['and brings nothing new', event(null, 'same', 'retry: 1\n')],
  ])('that ends early %s: the call may have taken effect', async (_name, text) => {
    server.script = (asked, response) => {
      if (!isCall(asked) && asked.headers['last-event-id'] === undefined) return false
      response.writeHead(200, stream).end(text)
      return true
    }
    const gateway = await listed()
    expect(textOf(await gateway.call('web__echo'))).toBe(
      'countersign: server `web` ended its answer too early; whether the call took effect is not known',
    )
    expect(calls()).toHaveLength(1)
  })

  test('messages that belong to no request: a changed list is read again', async () => {
    let tell: (() => void) | undefined
    let tools = ['echo']
    server.script = (asked, response) => {
      if (asked.verb === 'GET') {
        response.writeHead(200, stream).flushHeaders()
        tell = () =>
          void response.write(event({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }))
        return true
      }
      if (asked.message?.method !== 'tools/list') return false
      const result = { tools: tools.map((name) => ({ name, inputSchema: { type: 'object' } })) }
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ jsonrpc: '2.0', id: asked.message.id, result }))
      return true
    }
    const gateway = await start({})
    expect(await names(gateway)).toEqual(['web__echo'])
    await until('it listens', () => tell !== undefined)
    tools = ['echo', 'more']
    tell?.()
    await until('it is told', () => gateway.told('notifications/tools/list_changed').length === 1)
    expect(await names(gateway)).toEqual(['web__echo', 'web__more'])
  })
})

describe('answers that are refused', () => {
  let shared: Gateway
  sharedGateway(
    () => listed(),
    (gateway) => (shared = gateway),
  )

  test.each<[string, number, Record<string, string>, string]>([
    ['wrong credentials', 401, { 'www-authenticate': 'Bearer' }, "refuses the gateway's credentials (401)"],
    [
      'a redirect',
      307,
      { location: 'http://127.0.0.1:1/' },
      'answers with a redirect (307), which is refused',
    ],
    ['another coding', 200, { 'content-encoding': 'gzip' }, 'answers in the coding `gzip`'],
    ['another type', 200, { 'content-type': 'text/html' }, 'answered with `text/html`'],
    ['an error', 500, {}, 'answers 500'],
  ])('%s', async (_name, status, headers, told) => {
    server.script = (asked, response) => {
      if (!isCall(asked)) return false
      response.writeHead(status, headers).end('{}')
      return true
    }
    const result = await shared.call('web__echo')
    expect([result.isError, textOf(result)]).toEqual([true, expect.stringContaining(told)])
    expect(calls()).toHaveLength(1)
  })

  test.each([401, 302])('%d at the start is not tried again', async (status) => {
    server.script = (_asked, response) => {
      response.writeHead(status, { location: `${server.url}/other` }).end()
      return true
    }
    const gateway = await start({})
    expect(await names(gateway)).toEqual([])
    await until('it is said', () => gateway.stderr.includes('server `web` '))
    expect(server.asked).toHaveLength(1)
  })

  test('an answer over the limit of 64 MiB', async () => {
    server.script = (asked, response) => {
      if (!isCall(asked)) return false
      response.writeHead(200, stream)
      const part = Buffer.alloc(1 << 20, 'x')
      response.on('error', () => {})
      const more = (): void => {
        while (!response.destroyed && response.write(part));
        if (!response.destroyed) response.once('drain', more)
      }
      response.write('data: ')
      more()
      return true
    }
    const gateway = await listed()
    expect(textOf(await gateway.call('web__echo'))).toContain('more than 67108864 bytes')
    expect(textOf(await gateway.call('web__echo').catch(() => ({})))).toContain('more than')
  })
})

describe('addresses', () => {
  test('TLS: the certificate is checked, and `caFile` names own authorities', async () => {
    const trusting = await start({ url: secure.url, caFile: selfSigned.certFile })
    expect(await names(trusting)).toEqual(['web__echo'])
    // The gateway asks for the stream of its session in the background. This request must not be counted below.
    await until('its stream is asked for', () => secure.asked.some(({ verb }) => verb === 'GET'))
    secure.asked.length = 0
    const wary = await start({ url: secure.url })
    await until('it is said', () => wary.stderr.includes('cannot be reached over HTTP'))
    expect(wary.stderr).toMatch(/self.signed certificate/)
    expect(secure.asked).toEqual([])
    const url = secure.url.replace('localhost', '127.0.0.2')
    const other = await start({ url, caFile: selfSigned.certFile })
    await until('it is said', () => other.stderr.includes('cannot be reached over HTTP'))
    expect(secure.asked).toEqual([])
  })

  const wrong: readonly [string, object, string][] = [
    ['plain http to another machine', { url: 'http://mcp.example/' }, 'plain http to another machine'],
    ['a password', { url: 'https://a:b@mcp.example/' }, 'must have no user'],
    ['no address', { url: 'ftp://mcp.example' }, 'must be an address'],
    ['the older transport', { type: 'sse' }, '`type` is `sse`'],
    ['a program too', { command: 'x' }, 'leave one out'],
    ['the service’s key', { headers: { 'X-Key': '${SERVICE_API_KEY}' } }, "asks for the service's key"],
    ['the service’s key as text', { headers: { 'X-Key': 'csk_test' } }, "have the service's key"],
    ['a variable that is not set', { headers: { 'X-Key': '${BOARD_TOKEN}' } }, '`BOARD_TOKEN` is not set'],
    ['a header of the gateway', { headers: { 'Mcp-Session-Id': '1' } }, '`Mcp-Session-Id` cannot be set'],
    ['two lines in a header', { headers: { 'X-A': 'a\r\nX-B: b' } }, 'characters that no header may have'],
  ]
  test('wrong ones are refused, and the other servers work', async () => {
    const web = wrong.map(([, entry], at) => [`web-${at}`, { type: 'http', url: server.url, ...entry }])
    const gateway = await startGateway({
      servers: { ...Object.fromEntries(web), odd: odd() },
      env: { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' },
    })
    expect(await names(gateway)).toEqual(['odd__echo'])
    for (const [at, [name, , told]] of wrong.entries()) {
      const said = () =>
        gateway.stderr.split('\n').some((line) => line.includes(`\`web-${at}\``) && line.includes(told))
      await until(`${name} is refused: ${told}`, said)
    }
    expect(server.asked).toEqual([])
  })

  test('a file of authorities that others can change is refused', async () => {
    const file = join(temporaryFolder(), 'ca.pem')
    writeFileSync(file, '', { mode: 0o666 })
    chmodSync(file, 0o666)
    const gateway = await start({ url: secure.url, caFile: file })
    await until('it is said', () => gateway.stderr.includes('can be changed by other users'))
    expect(secure.asked).toEqual([])
  })
})
