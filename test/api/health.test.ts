import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { beat } from '../../src/governance/upkeep/housekeeping.ts'
import { asAdmin } from '../support/postgres.ts'
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
      checks: { database: 'ok', temporal: 'ok', worker: 'ok', disk: 'ok', audit: 'ok' },
    })
  })

  test('is degraded without a worker seen in the last 20 seconds', async () => {
    await seen(25)
    const answer = await server.call(null, 'GET', '/health')
    expect(answer.body).toEqual({
      status: 'degraded',
      checks: { database: 'ok', temporal: 'ok', worker: 'down', disk: 'ok', audit: 'ok' },
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
    expect(answer.body.checks).toEqual({
      database: 'ok',
      temporal: 'down',
      worker: 'ok',
      disk: 'ok',
      audit: 'ok',
    })
  })

  test.each([
    ['53100', 'disk_full'],
    ['25006', 'read_only'],
  ])('is degraded when the database answers and refuses to write with %s', async (code, reason) => {
    await seen(1)
    const { api_key: owner } = server.identities.users.owner
    const definition = { steps: [{ id: 'a', tool: 'memory_get', params: { key: 'k' } }] }
    const refuse = (table: string) =>
      asAdmin(server.adminUrl, (client) =>
        client.query(`
          create or replace function no_room() returns trigger language plpgsql as $$
          begin raise exception 'could not extend file' using errcode = '${code}'; end $$;
          create trigger no_room before insert or update on ${table} for each row execute function no_room()`),
      )
    await refuse('chain_head')
    const refused = await server.call(owner, 'POST', '/workflows', { name: 'W', definition })
    expect([refused.status, refused.body.error.code]).toEqual([503, 'unavailable'])
    const health = await server.call(null, 'GET', '/health')
    const checks = { database: reason, temporal: 'ok', worker: 'ok', disk: 'ok', audit: 'ok' }
    expect([health.status, health.body]).toEqual([200, { status: 'degraded', checks }])
    expect(await server.context.metrics.text()).toContain(
      `failed_batches_total{reason="${reason}",process="api"} 1`,
    )
    // If no request writes, the process's own heartbeat detects the problem.
    server.context.writeTrouble = null
    await refuse('process_heartbeats')
    await expect(beat(server.context, 'api')).rejects.toThrow('could not extend file')
    expect((await server.call(null, 'GET', '/health')).body.checks.database).toBe(reason)
  })

  test('does not blame the workers for a database that refuses their heartbeats too', async () => {
    await seen(25)
    const workerOf = async () => (await server.call(null, 'GET', '/health')).body.checks.worker
    server.context.writeTrouble = { at: performance.now() - 29_000, reason: 'disk_full' }
    expect(await workerOf()).toBe('unknown')
    server.context.writeTrouble = { at: performance.now() - 31_000, reason: 'disk_full' }
    expect(await workerOf()).toBe('down')
  })

  // The file system of /proc has no free bytes.
  test.each([
    ['the logs', { logFolder: '/proc' }],
    ['the data folder, without a folder for logs', { logFolder: null, dataFolder: '/proc' }],
  ])('is degraded when the disk of %s is full', async (_, folders) => {
    await seen(1)
    Object.assign(server.context, { config: { ...server.context.config, ...folders } })
    const health = await server.call(null, 'GET', '/health')
    expect(health.body).toMatchObject({ status: 'degraded', checks: { disk: 'full', database: 'ok' } })
    const folder = folders.logFolder === null ? 'data' : 'logs'
    expect(await server.context.metrics.text()).toContain(
      `countersign_disk_free_bytes{folder="${folder}",process="api"} 0`,
    )
  })

  test('a process without folders has no disk that is full', async () => {
    await seen(1)
    const folders = { logFolder: null, dataFolder: '/nowhere/.data' }
    Object.assign(server.context, { config: { ...server.context.config, ...folders } })
    expect((await server.call(null, 'GET', '/health')).body.checks.disk).toBe('ok')
    expect(await server.context.metrics.text()).not.toMatch(/^countersign_disk_free_bytes\{/m)
  })

  test('is 503 when the database cannot be reached, and all other routes say so too', async () => {
    const key = server.identities.users.owner.api_key
    await server.context.pool.end()
    Object.assign(server.context.pool, {
      connect: () => Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })),
      end: () => Promise.resolve(),
    })
    const health = await server.call(null, 'GET', '/health')
    expect(health.status).toBe(503)
    expect(health.body.checks).toMatchObject({ database: 'down', worker: 'unknown' })
    const me = await server.call(key, 'GET', '/me')
    expect([me.status, me.body.error.code]).toEqual([503, 'unavailable'])
    expect(me.headers.get('retry-after')).toBe('1')
  })
})
