import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, LookupFunction } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import fc from 'fast-check'
import { rejection } from '../tools/call.ts'
import { readConfig } from '../../src/shared/config.ts'
import { isNamed, isPublicAddress, loopbackHosts, type NamedHost } from '../../src/shared/outgoing/hosts.ts'
import {
  type Bounds,
  createOutgoing,
  type Outgoing,
  type OutgoingError,
} from '../../src/shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../src/shared/outgoing/retry-after.ts'

const service = {
  port: 0,
  base: '',
  seen: [] as IncomingMessage[],
  answer: (_request: IncomingMessage, _response: ServerResponse): void => undefined,
}
const open: Outgoing[] = []

const server = createServer((request, response) => {
  service.seen.push(request)
  request.resume()
  service.answer(request, response)
})

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  service.port = (server.address() as AddressInfo).port
  service.base = `http://127.0.0.1:${service.port}`
})
beforeEach(() => {
  service.seen = []
  service.answer = (_, response) => void response.end('fine')
})
afterAll(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await Promise.all(open.map((each) => each.close()))
})

function outgoing(hosts: readonly NamedHost[] = loopbackHosts, lookup?: LookupFunction): Outgoing {
  const made = createOutgoing({ hosts, ...(lookup === undefined ? {} : { lookup }) })
  open.push(made)
  return made
}

/** The error of a request to the service. */
const refusal = (more: Partial<Bounds> = {}, init: RequestInit = {}, url = `${service.base}/api`) =>
  rejection(within(more)(url, init))

/** A `fetch` that goes only below `/api` of the service, unless `more` says otherwise. */
const within = (more: Partial<Bounds> = {}, from = outgoing()) =>
  from.fetchWithin({ addresses: [`${service.base}/api`], milliseconds: 60_000, bytes: 1_000_000, ...more })

/** Answers every name with these addresses. */
const resolvesTo =
  (...addresses: string[]): LookupFunction =>
  (_, __, callback) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    )

describe('a request', () => {
  test('reaches the address with its headers and body, and the answer is read', async () => {
    service.answer = (request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () =>
        response.end(`${request.method} ${request.headers['x-a']} ${Buffer.concat(chunks)}`),
      )
    }
    const response = await within()(`${service.base}/api/x`, {
      method: 'POST',
      headers: { 'x-a': '1' },
      body: 'hello',
    })
    expect(await response.text()).toBe('POST 1 hello')
  })

  test('may have any body that the global `fetch` takes', async () => {
    service.answer = (request, response) => void response.end(request.headers['content-type'])
    const form = new FormData()
    form.set('a', 'b')
    const sent = await within()(`${service.base}/api`, { method: 'POST', body: form })
    expect(await sent.text()).toMatch(/^multipart\/form-data; boundary=/)
    const search = await within()(`${service.base}/api`, {
      method: 'POST',
      body: new URLSearchParams({ a: 'b' }),
    })
    expect(await search.text()).toMatch(/^application\/x-www-form-urlencoded/)
  })

  test('gets an unpacked answer that no longer claims to be packed', async () => {
    service.answer = (_, response) =>
      void response.setHeader('content-encoding', 'gzip').end(gzipSync('unpacked'))
    const response = await within()(`${service.base}/api`)
    expect([await response.text(), response.headers.get('content-encoding')]).toEqual(['unpacked', null])
  })

  test('gets an answer without a body', async () => {
    service.answer = (_, response) => void response.writeHead(204).end()
    expect((await within()(`${service.base}/api`)).status).toBe(204)
  })
})

describe('the credential stays at its host', () => {
  test.each([
    ['another port', () => 'http://127.0.0.1:9/api'],
    ['another host', () => `http://localhost:${service.port}/api`],
    ['another path', () => `${service.base}/apis`],
    ['a path above', () => `${service.base}/api/../x`],
    ['another scheme', () => `ftp://127.0.0.1:${service.port}/api`],
  ])('a request to %s is not sent', async (_, url) => {
    await expect(within()(url())).rejects.toMatchObject({ problem: 'host_refused', mayHaveArrived: false })
    expect(service.seen).toEqual([])
  })

  const elsewhere = ['https://elsewhere.example/api', 'http://localhost:1/api', '/x', '//elsewhere.example']
  test.each([...elsewhere, 'http://['])(
    'a redirect to `%s` is refused, and nothing goes there',
    async (location) => {
      service.answer = (_, response) => void response.writeHead(302, { location }).end()
      expect(await refusal()).toMatchObject({ problem: 'redirect_refused' })
      expect(service.seen).toHaveLength(1)
    },
  )

  test('a redirect below the address is followed for GET', async () => {
    service.answer = (request, response) =>
      void (request.url === '/api/old'
        ? response.writeHead(301, { location: '/api/new' }).end()
        : response.end(request.url))
    expect(await (await within()(`${service.base}/api/old`)).text()).toBe('/api/new')
  })

  test.each([301, 302, 303, 307, 308])('a write is never sent again, also not after %d', async (status) => {
    service.answer = (_, response) => void response.writeHead(status, { location: '/api/new' }).end()
    await expect(within()(`${service.base}/api/old`, { method: 'POST', body: 'x' })).rejects.toMatchObject({
      problem: 'redirect_refused',
      mayHaveArrived: true,
    })
    expect(service.seen).toHaveLength(1)
  })

  test('redirects in a circle end', async () => {
    service.answer = (_, response) => void response.writeHead(302, { location: '/api/a' }).end()
    await expect(within()(`${service.base}/api/a`)).rejects.toMatchObject({ problem: 'redirect_refused' })
    expect(service.seen).toHaveLength(4)
  })
})

describe('private addresses', () => {
  const refused = { problem: 'unreachable', mayHaveArrived: false }

  test('plain http goes only to named hosts', async () => {
    const closed = outgoing([])
    expect(closed.refusalOf(service.base)).toContain('CONNECTION_HOSTS')
    await expect(within({}, closed)(`${service.base}/api`)).rejects.toMatchObject({
      problem: 'host_refused',
    })
  })

  test('a literal address is refused', async () => {
    const closed = outgoing([])
    for (const host of ['127.0.0.1', '10.0.0.1', '[::1]', '169.254.169.254', '0x7f.1', '2130706433']) {
      const address = `https://${host}:${service.port}`
      await expect(within({ addresses: [address] }, closed)(address)).rejects.toMatchObject(refused)
    }
  })

  test.each([
    ['a private one', ['10.0.0.1']],
    ['a public and a private one', ['8.8.8.8', '127.0.0.1']],
    ['a mapped one', ['::ffff:127.0.0.1']],
    ['none', []],
  ])('a name is refused whose addresses are %s', async (_, addresses) => {
    const address = 'https://git.acme.example'
    const closed = outgoing([], resolvesTo(...addresses))
    await expect(within({ addresses: [address] }, closed)(address)).rejects.toMatchObject(refused)
  })

  test('a name inside the network and a name that does not exist look the same; the operator learns the cause', async () => {
    const address = 'https://git.acme.example'
    const causes: string[] = []
    const attempt = async (lookup: LookupFunction) => {
      const onUnreachable = (_: string, why: string) => void causes.push(why)
      const made = createOutgoing({ hosts: [], lookup, onUnreachable })
      const thrown = await within({ addresses: [address] }, made)(address).catch((error: unknown) => error)
      await made.close()
      const { problem, message, mayHaveArrived } = thrown as OutgoingError
      return { problem, message, mayHaveArrived }
    }
    const unknown: LookupFunction = (_, __, callback) =>
      callback(Object.assign(new Error('getaddrinfo'), { code: 'ENOTFOUND' }), '', 0)
    expect(await attempt(resolvesTo('10.0.0.1'))).toEqual(await attempt(unknown))
    expect(causes).toEqual([expect.stringContaining('CONNECTION_HOSTS'), 'ENOTFOUND'])
  })

  test('the answer that was checked is the one that is used: a name is looked up once', async () => {
    let asked = 0
    const rebinding: LookupFunction = (name, options, callback) => {
      asked += 1
      return resolvesTo(asked === 1 ? '203.0.114.1' : '127.0.0.1')(name, options, callback)
    }
    const address = `https://git.acme.example:${service.port}`
    const send = within({ addresses: [address], milliseconds: 300 }, outgoing([], rebinding))
    await expect(send(address)).rejects.toMatchObject({ name: 'OutgoingError' })
    expect([asked, service.seen]).toEqual([1, []])
  })

  test('a named host may be private', async () => {
    const named = outgoing([{ host: 'git.acme.example', port: service.port }], resolvesTo('127.0.0.1'))
    const address = `http://git.acme.example:${service.port}`
    expect(await (await within({ addresses: [address] }, named)(address)).text()).toBe('fine')
  })
})

describe('a hostile service', () => {
  test('an endless answer ends at the limit', async () => {
    service.answer = (_, response) => {
      const more = (): void => {
        while (response.write(Buffer.alloc(65_536))) if (response.destroyed) return
        response.once('drain', more)
      }
      more()
    }
    const refused = { problem: 'answer_too_large', mayHaveArrived: true }
    expect(await refusal({ bytes: 300_000 })).toMatchObject(refused)
  })

  test('a small packed answer that unpacks to a large one ends at the limit', async () => {
    const bomb = gzipSync(Buffer.alloc(20_000_000))
    service.answer = (_, response) => void response.setHeader('content-encoding', 'gzip').end(bomb)
    expect(await refusal()).toMatchObject({ problem: 'answer_too_large' })
  })

  test('JSON with too many values is refused before anybody parses it, whatever type it claims', async () => {
    service.answer = (_, response) =>
      void response.setHeader('content-type', 'text/plain').end(` [${Array(300_000).fill('{}').join()}]`)
    expect(await refusal()).toMatchObject({
      problem: 'answer_too_large',
      message: expect.stringContaining('200000 values'),
    })
  })

  test('large answers are read one after the other if there is room for one only, small ones at once', async () => {
    service.answer = ({ url }, response) =>
      void response.end('x'.repeat(url === '/api/small' ? 1_000 : 900_000))
    const turns: (() => void)[] = []
    const asked: number[] = []
    const reserve = async (bytes: number): Promise<{ release(): void }> => {
      asked.push(bytes)
      const { promise, resolve } = Promise.withResolvers<void>()
      turns.push(resolve)
      if (turns.length === 1) resolve()
      await promise
      return {
        release() {
          turns.shift()
          turns[0]?.()
        },
      }
    }
    const send = within({ reserve })
    const large = Promise.all(Array.from({ length: 4 }, () => send(`${service.base}/api`)))
    expect((await send(`${service.base}/api/small`)).status).toBe(200)
    await large
    expect([asked.length, turns.length]).toEqual([4, 0])
    expect(asked.every((bytes) => bytes >= 4 * 900_000)).toBe(true)
  })

  test('an answer for which no room becomes free ends with the time limit', async () => {
    service.answer = (_, response) => void response.end('x'.repeat(900_000))
    const reserve = (_: number, signal: AbortSignal) =>
      new Promise<never>((__, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      )
    expect(await refusal({ milliseconds: 300, reserve })).toMatchObject({
      problem: 'timeout',
    })
  })

  test.each(['does not come', 'trickles'])('an answer that %s ends with the time limit', async (how) => {
    service.answer = (_, response) => {
      if (how === 'does not come') return
      const drip = setInterval(() => response.write('.'), 20)
      response.once('close', () => clearInterval(drip))
    }
    const timeout = { problem: 'timeout', mayHaveArrived: true }
    expect(await refusal({ milliseconds: 200 })).toMatchObject(timeout)
  })

  test('a cut connection may have taken the request', async () => {
    service.answer = (request) => void request.socket.destroy()
    expect(await refusal({}, { method: 'POST', body: 'x' })).toMatchObject({
      problem: 'connection_lost',
      mayHaveArrived: true,
    })
  })

  test('a refused connection has not', async () => {
    const unused = createServer()
    await new Promise<void>((resolve) => unused.listen(0, '127.0.0.1', resolve))
    const address = `http://127.0.0.1:${(unused.address() as AddressInfo).port}`
    await new Promise((resolve) => unused.close(resolve))
    await expect(within({ addresses: [address] })(address, { method: 'POST' })).rejects.toMatchObject({
      problem: 'unreachable',
      mayHaveArrived: false,
      message: expect.stringContaining('cannot be reached'),
    })
  })

  test('a connection that opens while this process stands still carries no request', async () => {
    const now = performance.now.bind(performance)
    let stood = 0
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => now() + stood)
    const lookup: LookupFunction = (_, __, callback) => {
      stood = 20_000
      callback(null, [{ address: '127.0.0.1', family: 4 }])
    }
    const hosts = [{ host: 'still.example', port: service.port }]
    const url = `http://still.example:${service.port}/api`
    const fetch = within({ addresses: [url] }, outgoing(hosts, lookup))
    await expect(fetch(url)).rejects.toMatchObject({ problem: 'unreachable', mayHaveArrived: false })
    expect(service.seen).toEqual([])
    clock.mockRestore()
    await (await fetch(url)).text()
    expect(service.seen).toHaveLength(1)
  })

  test('cancelling ends the request in flight with the caller’s own reason', async () => {
    const control = new AbortController()
    service.answer = () => control.abort(new Error('cancelled'))
    await expect(within({ signal: control.signal })(`${service.base}/api`)).rejects.toThrow('cancelled')
  })
})

const now = Date.parse('2026-11-23T04:00:00Z')

test.each([
  [{}, null],
  [{ 'retry-after': '7' }, 7],
  [{ 'retry-after': '0' }, 0],
  [{ 'retry-after': '1.5' }, 2],
  [{ 'retry-after': '99999999' }, 3_600],
  [{ 'retry-after': 'Mon, 23 Nov 2026 04:00:30 GMT' }, 30],
  [{ 'retry-after': 'Mon, 23 Nov 2026 03:00:00 GMT' }, 0],
  [{ 'retry-after': 'soon' }, null],
  [{ 'retry-after': '-3' }, null],
  [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(now / 1_000 + 60) }, 60],
  [{ 'x-ratelimit-remaining': '1', 'x-ratelimit-reset': String(now / 1_000 + 60) }, null],
  [{ 'x-ratelimit-remaining': '0' }, null],
  [{ 'x-ratelimit-remaining': '0, 14523', 'x-ratelimit-reset': '1, 1419704' }, 1],
  [{ 'x-ratelimit-remaining': '0, 0', 'x-ratelimit-reset': '1, 1419704' }, 3_600],
  [{ 'x-ratelimit-remaining': '1, 5', 'x-ratelimit-reset': '1, 60' }, null],
  [{ 'x-ratelimit-remaining': '0, x', 'x-ratelimit-reset': '1, 60' }, null],
  [{ 'retry-after': '5', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(now / 1_000 + 60) }, 5],
])('%j is %p seconds', (headers, seconds) => {
  expect(retryAfterOf(new Headers(headers as Record<string, string>), now)).toBe(seconds)
})

const least = {
  DATABASE_URL: 'postgresql://db/x',
  DATA_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
}
const hostsOf = (text: string) => readConfig({ ...least, CONNECTION_HOSTS: text }).connections.hosts

const ofEverybody = ['8.8.8.8', '140.82.121.6', '2606:4700::6810:84e5', '::ffff:8.8.8.8']
test.each(ofEverybody)('%s is public', (address) => expect(isPublicAddress(address)).toBe(true))

describe('an address is not public', () => {
  const addresses = {
    'of this machine': ['127.0.0.1', '127.255.0.9', '0.0.0.0', '::', '::1', '::ffff:7f00:1'],
    'of a private network': ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '100.64.0.1'],
    'of a private network in IPv6': ['fc00::1', 'fd12:3456::1', '::ffff:10.0.0.1'],
    'of a link': ['169.254.169.254', 'fe80::1', 'fe80::1%eth0'],
    'of many': ['224.0.0.1', '255.255.255.255', 'ff02::1'],
    'for examples and tests': ['192.0.2.1', '198.18.0.1', '2001:db8::1'],
    'that contains an IPv4 address': [
      '64:ff9b::a00:1',
      '2002:a00:1::1',
      '2001:0:4136:e378:8000:63bf:3fff:fdd2',
    ],
    'that is reserved': ['::7f00:1', 'fec0::1', '4000::1'],
    'of a service on the host in Azure': ['168.63.129.16', '::ffff:168.63.129.16'],
    'that is no address': ['localhost', '', '127.1', '0x7f000001', '2130706433'],
  }
  const all = Object.entries(addresses).flatMap(([what, each]) => each.map((one) => [one, what]))
  test.each(all)('%s %s', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })

  test('every address of the private ranges, in both forms', () => {
    const byte = fc.integer({ min: 0, max: 255 })
    const inside = fc.oneof(
      fc.tuple(fc.constant(10), byte, byte, byte),
      fc.tuple(fc.constant(127), byte, byte, byte),
      fc.tuple(fc.constant(192), fc.constant(168), byte, byte),
      fc.tuple(fc.constant(172), fc.integer({ min: 16, max: 31 }), byte, byte),
      fc.tuple(fc.constant(169), fc.constant(254), byte, byte),
    )
    fc.assert(
      fc.property(inside, (bytes) => {
        const address = bytes.join('.')
        expect([address, isPublicAddress(address), isPublicAddress(`::ffff:${address}`)]).toEqual([
          address,
          false,
          false,
        ])
      }),
    )
  })
})

describe('CONNECTION_HOSTS', () => {
  test('names hosts with and without a port', () => {
    const hosts = hostsOf('git.Internal, 10.0.0.7:8443,[FD00:0::7]:443,[fd00::8]')
    const rows: [string, number, boolean][] = [
      ['git.internal', 443, true],
      ['GIT.internal', 8080, true],
      ['a.git.internal', 443, false],
      ['10.0.0.7', 8443, true],
      ['10.0.0.7', 443, false],
      ['[fd00::7]', 443, true],
      ['fd00:0:0::7', 443, true],
      ['[fd00::7]', 444, false],
      ['[fd00::8]', 1, true],
    ]
    expect(rows.map(([host, port]) => [host, port, isNamed(hosts, host, port)])).toEqual(rows)
  })

  const noHosts = ['http://a', 'a:0', 'a:70000', 'a/b', '10.0.0.0/8', '[10.0.0.1]', '*', 'a b', '::1']
  test.each(noHosts)('refuses `%s`', (text) => {
    expect(() => hostsOf(text)).toThrow(`CONNECTION_HOSTS is wrong: \`${text}\` is not a host`)
  })

  test('is loopback in development, and nothing where many can reach the service', () => {
    expect(readConfig(least).connections.hosts).toEqual(loopbackHosts)
    expect(readConfig({ ...least, APP_ENV: 'staging' }).connections.hosts).toEqual([])
    expect(hostsOf('git.internal')).toEqual([{ host: 'git.internal', port: null }])
  })
})
