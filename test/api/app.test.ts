import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(async () => {
  await server.close()
})

describe('the application', () => {
  test('answers every prefix alike', async () => {
    const { owner } = server.identities.users
    for (const prefix of ['', '/v1', '/api/v1']) {
      const answer = await server.call(owner.api_key, 'GET', `${prefix}/me`)
      expect(answer.status).toBe(200)
      expect(answer.body.user).toMatchObject({ id: owner.user_id, email: owner.email, name: 'owner' })
      expect(answer.body.organizations).toEqual([
        expect.objectContaining({ id: server.identities.organization_id, role: 'owner', plan: 'enterprise' }),
      ])
      expect(answer.body.scopes['governance:write']).toBe(true)
    }
  })

  test('keeps a valid request id and replaces another', async () => {
    const kept = await server.call(null, 'GET', '/health', undefined, { 'x-request-id': 'abc-1' })
    expect(kept.headers.get('x-request-id')).toBe('abc-1')
    const replaced = await server.call(null, 'GET', '/health', undefined, { 'x-request-id': 'a b' })
    expect(replaced.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('shows no header about its software', async () => {
    const { headers } = await server.call(null, 'GET', '/health')
    expect(headers.get('x-powered-by')).toBeNull()
    expect(headers.get('x-content-type-options')).toBe('nosniff')
  })

  test.each([
    ['GET', '/nowhere'],
    ['GET', '/api/v1/nowhere'],
    ['PUT', '/health'],
    ['OPTIONS', '/me'],
    ['GET', '/ME'],
  ])('%s %s is not found, in the usual form of errors', async (method, path) => {
    const answer = await server.call(null, method, path)
    expect(answer.status).toBe(404)
    expect(answer.body.error.code).toBe('not_found')
    expect(answer.body.meta.request_id).toBe(answer.headers.get('x-request-id'))
  })

  test.each([null, 'csk_live_x', 'nonsense'])('%p is not a key: 401 with what to send', async (key) => {
    const answer = await server.call(key, 'GET', '/me')
    expect(answer.status).toBe(401)
    expect(answer.body.error.code).toBe('unauthenticated')
    expect(answer.headers.get('www-authenticate')).toBe('Bearer')
  })

  test.each([
    ['declares its length', 'Content-Length: 6291456', (piece: string) => piece],
    [
      'is sent in chunks',
      'Transfer-Encoding: chunked',
      (piece: string) => `${piece.length.toString(16)}\r\n${piece}\r\n`,
    ],
  ] as const)(
    'a sender of a body that is too large and %s can send all of it and reads 413',
    async (_, length, form) => {
      // prettier-ignore
      const { hostname, port } = new URL(server.base)
      const socket = connect(Number(port), hostname)
      let [text, problem] = ['', null as Error | null]
      socket.setEncoding('utf8').on('data', (part: string) => (text += part))
      socket.on('error', (error) => (problem = error))
      const closed = once(socket, 'close')
      const key = server.identities.users.owner.api_key
      socket.write(`POST /workflows HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${length}\r\n\r\n`) // prettier-ignore
      for (let sent = 0; sent < 48 && problem === null; sent += 1)
        await new Promise<void>((resolve) => socket.write(form('x'.repeat(128 * 1024)), () => resolve()))
      if (length.endsWith('chunked')) socket.write('0\r\n\r\n')
      await closed
      expect(problem).toBeNull()
      expect(text).toMatch(/^HTTP\/1.1 413 /)
      expect(text).toContain('"code":"too_large"')
    },
  )
})
