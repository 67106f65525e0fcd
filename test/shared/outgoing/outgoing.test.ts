import type { LookupFunction } from 'node:net'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from '@jest/globals'
import { createOutgoing, type OutgoingError } from '../../../src/shared/outgoing/outgoing.ts'
import { outgoing, service, useLocalService, within } from './local-service.ts'

useLocalService()

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

  test.each([
    'https://elsewhere.example/api',
    'http://localhost:1/api',
    '/x',
    '//elsewhere.example',
    'http://[',
  ])('a redirect to `%s` is refused, and nothing goes there', async (location) => {
    service.answer = (_, response) => void response.writeHead(302, { location }).end()
    await expect(within()(`${service.base}/api`)).rejects.toMatchObject({ problem: 'redirect_refused' })
    expect(service.seen).toHaveLength(1)
  })

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
