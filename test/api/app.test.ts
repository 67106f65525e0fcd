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
})
