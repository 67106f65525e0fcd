import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
let temporal: () => Promise<boolean>
beforeEach(async () => {
  temporal = () => Promise.resolve(true)
  server = await startTestServer({ services: { temporal: () => temporal() } })
})
afterEach(() => server.close())

const seen = (secondsAgo: number) =>
  server.context.pool.query(
    `insert into process_heartbeats (process_id, kind, seen_at) values ('w', 'worker', now() - make_interval(secs => $1))`,
    [secondsAgo],
  )

describe('GET /health', () => {
  test('is ok when everything answers', async () => {
    await seen(5)
    const answer = await server.call(null, 'GET', '/health')
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({
      status: 'ok',
      checks: { database: 'ok', temporal: 'ok', worker: 'ok', audit: 'ok' },
    })
  })

  test('is degraded without a worker seen in the last 20 seconds', async () => {
    await seen(25)
    const answer = await server.call(null, 'GET', '/health')
    expect(answer.body).toEqual({
      status: 'degraded',
      checks: { database: 'ok', temporal: 'ok', worker: 'down', audit: 'ok' },
    })
  })

  test.each([
    ['says no', () => Promise.resolve(false)],
    ['fails', () => Promise.reject(new Error('away'))],
    [
      'throws',
      () => {
        throw new Error('away')
      },
    ],
  ])('is degraded when Temporal %s', async (_, check) => {
    await seen(1)
    temporal = check
    const answer = await server.call(null, 'GET', '/health')
    expect(answer.status).toBe(200)
    expect(answer.body.checks).toEqual({ database: 'ok', temporal: 'down', worker: 'ok', audit: 'ok' })
  })

  test('is 503 when the database is away, and everything else says so too', async () => {
    const key = server.identities.users.owner.api_key
    await server.context.pool.end()
    Object.assign(server.context.pool, {
      connect: () => Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })),
      end: () => Promise.resolve(),
    })
    const health = await server.call(null, 'GET', '/health')
    expect(health.status).toBe(503)
    expect(health.body.checks.database).toBe('down')
    const me = await server.call(key, 'GET', '/me')
    expect([me.status, me.body.error.code]).toEqual([503, 'unavailable'])
    expect(me.headers.get('retry-after')).toBe('1')
  })
})
