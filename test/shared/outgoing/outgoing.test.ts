import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTcpServer, type AddressInfo, type LookupFunction } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { loopbackHosts, type NamedHost } from '../../../src/shared/outgoing/hosts.ts'
import { createOutgoing, type Bounds, type Outgoing } from '../../../src/shared/outgoing/outgoing.ts'

let server: Server
let port: number
let seen: IncomingMessage[] = []
let answer: (request: IncomingMessage, response: ServerResponse) => void
const open: Outgoing[] = []

beforeAll(async () => {
  server = createServer((request, response) => {
    seen.push(request)
    request.resume()
    answer(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  ;({ port } = server.address() as AddressInfo)
})
beforeEach(() => {
  seen = []
  answer = (_, response) => void response.end('fine')
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

const base = (): string => `http://127.0.0.1:${port}`
const within = (more: Partial<Bounds> = {}, from = outgoing()) =>
  from.fetchWithin({ addresses: [`${base()}/api`], milliseconds: 60_000, bytes: 1_000_000, ...more })

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
    answer = (request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () =>
        response.end(`${request.method} ${request.headers['x-a']} ${Buffer.concat(chunks)}`),
      )
    }
    const response = await within()(`${base()}/api/x`, {
      method: 'POST',
      headers: { 'x-a': '1' },
      body: 'hello',
    })
    expect(await response.text()).toBe('POST 1 hello')
  })

  test('may have any body that the global `fetch` takes', async () => {
    answer = (request, response) => void response.end(request.headers['content-type'])
    const form = new FormData()
    form.set('a', 'b')
    const sent = await within()(`${base()}/api`, { method: 'POST', body: form })
    expect(await sent.text()).toMatch(/^multipart\/form-data; boundary=/)
    const search = await within()(`${base()}/api`, { method: 'POST', body: new URLSearchParams({ a: 'b' }) })
    expect(await search.text()).toMatch(/^application\/x-www-form-urlencoded/)
  })

  test('gets an unpacked answer that no longer claims to be packed', async () => {
    answer = (_, response) => void response.setHeader('content-encoding', 'gzip').end(gzipSync('unpacked'))
    const response = await within()(`${base()}/api`)
    expect([await response.text(), response.headers.get('content-encoding')]).toEqual(['unpacked', null])
  })

  test('gets an answer without a body', async () => {
    answer = (_, response) => void response.writeHead(204).end()
    expect((await within()(`${base()}/api`)).status).toBe(204)
  })
})

describe('the credential stays at its host', () => {
  test.each([
    ['another port', () => 'http://127.0.0.1:9/api'],
    ['another host', () => `http://localhost:${port}/api`],
    ['another path', () => `${base()}/apis`],
    ['a path above', () => `${base()}/api/../x`],
    ['another scheme', () => `ftp://127.0.0.1:${port}/api`],
  ])('a request to %s is not sent', async (_, url) => {
    await expect(within()(url())).rejects.toMatchObject({ problem: 'host_refused', mayHaveArrived: false })
    expect(seen).toEqual([])
  })

  test.each([
    'https://elsewhere.example/api',
    'http://localhost:1/api',
    '/x',
    '//elsewhere.example',
    'http://[',
  ])('a redirect to `%s` is refused, and nothing goes there', async (location) => {
    answer = (_, response) => void response.writeHead(302, { location }).end()
    await expect(within()(`${base()}/api`)).rejects.toMatchObject({ problem: 'redirect_refused' })
    expect(seen).toHaveLength(1)
  })

  test('a redirect below the address is followed for GET', async () => {
    answer = (request, response) =>
      void (request.url === '/api/old'
        ? response.writeHead(301, { location: '/api/new' }).end()
        : response.end(request.url))
    expect(await (await within()(`${base()}/api/old`)).text()).toBe('/api/new')
  })

  test.each([301, 302, 303, 307, 308])('a write is never sent again, also not after %d', async (status) => {
    answer = (_, response) => void response.writeHead(status, { location: '/api/new' }).end()
    await expect(within()(`${base()}/api/old`, { method: 'POST', body: 'x' })).rejects.toMatchObject({
      problem: 'redirect_refused',
      mayHaveArrived: true,
    })
    expect(seen).toHaveLength(1)
  })

  test('redirects in a circle end', async () => {
    answer = (_, response) => void response.writeHead(302, { location: '/api/a' }).end()
    await expect(within()(`${base()}/api/a`)).rejects.toMatchObject({ problem: 'redirect_refused' })
    expect(seen).toHaveLength(4)
  })
})

describe('private addresses', () => {
  const refused = { problem: 'host_refused', mayHaveArrived: false }

  test('plain http goes only to named hosts', async () => {
    const closed = outgoing([])
    expect(closed.refusalOf(base())).toContain('CONNECTION_HOSTS')
    await expect(within({}, closed)(`${base()}/api`)).rejects.toMatchObject(refused)
  })

  test('a literal address is refused', async () => {
    const closed = outgoing([])
    for (const host of ['127.0.0.1', '10.0.0.1', '[::1]', '169.254.169.254', '0x7f.1', '2130706433']) {
      const address = `https://${host}:${port}`
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

  test('the answer that was checked is the one that is used: a name is looked up once', async () => {
    let asked = 0
    const rebinding: LookupFunction = (name, options, callback) => {
      asked += 1
      return resolvesTo(asked === 1 ? '203.0.114.1' : '127.0.0.1')(name, options, callback)
    }
    const address = `https://git.acme.example:${port}`
    const send = within({ addresses: [address], milliseconds: 300 }, outgoing([], rebinding))
    await expect(send(address)).rejects.toMatchObject({ name: 'OutgoingError' })
    expect([asked, seen]).toEqual([1, []])
  })

  test('a named host may be private', async () => {
    const named = outgoing([{ host: 'git.acme.example', port }], resolvesTo('127.0.0.1'))
    const address = `http://git.acme.example:${port}`
    expect(await (await within({ addresses: [address] }, named)(address)).text()).toBe('fine')
  })
})

describe('a hostile service', () => {
  test('an endless answer ends at the limit', async () => {
    answer = (_, response) => {
      const more = (): void => {
        while (response.write(Buffer.alloc(65_536))) if (response.destroyed) return
        response.once('drain', more)
      }
      more()
    }
    await expect(within({ bytes: 300_000 })(`${base()}/api`)).rejects.toMatchObject({
      problem: 'answer_too_large',
      mayHaveArrived: true,
    })
  })

  test('a small packed answer that unpacks to a large one ends at the limit', async () => {
    const bomb = gzipSync(Buffer.alloc(20_000_000))
    answer = (_, response) => void response.setHeader('content-encoding', 'gzip').end(bomb)
    await expect(within()(`${base()}/api`)).rejects.toMatchObject({ problem: 'answer_too_large' })
  })

  test('JSON with too many values is refused before anybody parses it, whatever type it claims', async () => {
    answer = (_, response) =>
      void response.setHeader('content-type', 'text/plain').end(` [${Array(300_000).fill('{}').join()}]`)
    await expect(within()(`${base()}/api`)).rejects.toMatchObject({
      problem: 'answer_too_large',
      message: expect.stringContaining('200000 values'),
    })
  })

  test('large answers are read one after the other if there is room for one only, small ones at once', async () => {
    answer = ({ url }, response) => void response.end('x'.repeat(url === '/api/small' ? 1_000 : 900_000))
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
    const large = Promise.all(Array.from({ length: 4 }, () => send(`${base()}/api`)))
    expect((await send(`${base()}/api/small`)).status).toBe(200)
    await large
    expect([asked.length, turns.length]).toEqual([4, 0])
    expect(asked.every((bytes) => bytes >= 4 * 900_000)).toBe(true)
  })

  test('an answer for which no room becomes free ends with the time limit', async () => {
    answer = (_, response) => void response.end('x'.repeat(900_000))
    const reserve = (_: number, signal: AbortSignal) =>
      new Promise<never>((__, reject) =>
        signal.addEventListener('abort', () => reject(signal.reason as Error)),
      )
    await expect(within({ milliseconds: 300, reserve })(`${base()}/api`)).rejects.toMatchObject({
      problem: 'timeout',
    })
  })

  test('an answer that does not come ends with the time limit', async () => {
    answer = () => {}
    await expect(within({ milliseconds: 100 })(`${base()}/api`)).rejects.toMatchObject({
      problem: 'timeout',
      mayHaveArrived: true,
    })
  })

  test('an answer that trickles ends with the same time limit', async () => {
    answer = (_, response) => {
      const drip = setInterval(() => response.write('.'), 20)
      response.once('close', () => clearInterval(drip))
    }
    await expect(within({ milliseconds: 200 })(`${base()}/api`)).rejects.toMatchObject({ problem: 'timeout' })
  })

  test('a cut connection may have taken the request', async () => {
    answer = (request) => void request.socket.destroy()
    await expect(within()(`${base()}/api`, { method: 'POST', body: 'x' })).rejects.toMatchObject({
      problem: 'connection_lost',
      mayHaveArrived: true,
    })
  })

  test('a refused connection has not', async () => {
    const unused = createTcpServer()
    await new Promise<void>((resolve) => unused.listen(0, '127.0.0.1', resolve))
    const address = `http://127.0.0.1:${(unused.address() as AddressInfo).port}`
    await new Promise((resolve) => unused.close(resolve))
    await expect(within({ addresses: [address] })(address, { method: 'POST' })).rejects.toMatchObject({
      problem: 'unreachable',
      mayHaveArrived: false,
      message: expect.stringContaining('ECONNREFUSED'),
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
    const hosts = [{ host: 'still.example', port }]
    const url = `http://still.example:${port}/api`
    const fetch = within({ addresses: [url] }, outgoing(hosts, lookup))
    await expect(fetch(url)).rejects.toMatchObject({ problem: 'unreachable', mayHaveArrived: false })
    expect(seen).toEqual([])
    clock.mockRestore()
    await (await fetch(url)).text()
    expect(seen).toHaveLength(1)
  })

  test('cancelling ends the request in flight with the caller’s own reason', async () => {
    const control = new AbortController()
    answer = () => control.abort(new Error('cancelled'))
    await expect(within({ signal: control.signal })(`${base()}/api`)).rejects.toThrow('cancelled')
  })
})
