import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { addKey } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server?.close())

test('a limit that an owner sets refuses the next request with 429, and its answer tells when to come again', async () => {
  const { organization_id: id, users } = server.identities
  const call = (key: string | null, path = '/me') => server.call(key, 'GET', path)
  const first = await call(users.member.api_key)
  expect(first.headers.get('x-ratelimit-limit')).toBe('100000')
  expect(Number(first.headers.get('x-ratelimit-remaining'))).toBeLessThan(100_000)
  expect(Number(first.headers.get('x-ratelimit-reset'))).toBeGreaterThan(Date.now() / 1_000 - 5)
  const quota = { requests_per_day: 1 }
  await server.call(users.owner.api_key, 'PATCH', `/organizations/${id}/quota`, quota)
  const refused = await call(users.member.api_key)
  expect(refused.status).toBe(429)
  expect(refused.body.error).toMatchObject({
    code: 'rate_limited',
    details: [{ path: 'requests_per_day', message: 'the limit is 1' }],
  })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(refused.headers.get('x-ratelimit-remaining')).toBe('0')
  const raised = await server.call(users.owner.api_key, 'PATCH', `/organizations/${id}/quota`, {
    requests_per_day: 1_000_000,
  })
  expect(raised.status).toBe(200)
  expect((await call(users.member.api_key)).status).toBe(200)
  await server.call(users.owner.api_key, 'PATCH', `/organizations/${id}/quota`, quota)
  // Refused before anything else is said; who is not known is not counted, and nor is what needs no key.
  const narrow = await addKey(server.context, id, users.member.user_id, ['rules:read'])
  expect((await call(narrow.secret, '/workflows')).status).toBe(429)
  expect((await call(null)).status).toBe(401)
  expect((await call(null, '/health')).headers.get('x-ratelimit-limit')).toBeNull()
})
