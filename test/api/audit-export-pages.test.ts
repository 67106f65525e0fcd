import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, jest, test } from '@jest/globals'
import { asAdmin } from '../support/postgres.ts'
import { until } from '../stack/until.ts'
import {
  append,
  check,
  cut,
  eachWithLog,
  get,
  keep,
  key,
  organization,
  server,
} from './audit-proof-fixture.ts'

eachWithLog()

test.each(['checkpoint', 'export'])(
  'HEAD of the %s sends the headers of GET, without a body',
  async (what) => {
    await append(9)
    const send = (method: string) =>
      fetch(`${server.base}/organizations/${organization}/audit-events/${what}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
      })
    const [got, asked] = [await send('GET'), await send('HEAD')]
    expect(await asked.text()).toBe('')
    for (const name of ['content-type', 'x-verifier-key']) {
      expect(got.headers.get(name)).not.toBeNull()
      expect([asked.status, name, asked.headers.get(name)]).toEqual([200, name, got.headers.get(name)])
    }
    if (what === 'export') return
    await keep()
    await cut(3)
    expect((await send('HEAD')).status).toBe(409)
  },
)

describe('a slow reader of a large export', () => {
  /** Opens an export and reads nothing of it. */
  async function open(): Promise<{ status: number; leave: () => void; rest: () => Promise<string> }> {
    const abort = new AbortController()
    const path = `/organizations/${organization}/audit-events/export`
    const answer = await fetch(`${server.base}${path}`, {
      headers: { authorization: `Bearer ${key}`, connection: 'close' },
      signal: abort.signal,
    })
    return { status: answer.status, leave: () => abort.abort(), rest: () => answer.text() }
  }

  /** Adds long entries. The buffers between server and client cannot take all of them. */
  const appendLarge = async (): Promise<void> => {
    for (let part = 0; part < 8; part += 1) await append(250, 'x'.repeat(8_000))
  }
  const pool = () => server.context.pool
  const areIdle = (): boolean => pool().idleCount === pool().totalCount && pool().waitingCount === 0

  test('holds no connection, pages wait for it, and others of the organization are refused', async () => {
    await appendLarge()
    const executed = jest.spyOn(pool(), 'connect')
    const [first, second] = [await open(), await open()]
    expect([first.status, second.status]).toEqual([200, 200])
    // The server reads pages until the buffers of the connections are full. Then it reads nothing.
    let reads = -1
    await until('no page is read', async () => {
      const before = reads
      reads = executed.mock.calls.length
      for (let turn = 0; turn < 200; turn += 1) await nextTurn()
      return before === reads && areIdle()
    })
    executed.mockRestore()
    const third = await get('export')
    expect([third.status, third.headers.get('retry-after')]).toEqual([429, '10'])
    second.leave()
    const text = await first.rest()
    await check(text)
    expect(text.length).toBeGreaterThan(16_000_000)
    await until('the places are free again', async () => (await open()).status === 200)
  })
})

test('a fast reader who loses the rights gets no more pages', async () => {
  for (let part = 0; part < 8; part += 1) await append(250)
  const { checkpoints, pool } = server.context
  const [end, connect] = [checkpoints.end.bind(checkpoints), pool.connect.bind(pool)]
  const now = performance.now.bind(performance)
  let pages = -Infinity
  jest.spyOn(checkpoints, 'end').mockImplementation(async (of) => {
    const found = await end(of)
    pages = 0
    return found
  })
  jest.spyOn(pool, 'connect').mockImplementation((async () => {
    pages += 1
    if (pages === 3) {
      await asAdmin(server.adminUrl, (client) =>
        client.query('update api_keys set revoked_at = now() where organization_id = $1', [organization]),
      )
      // The rights are checked again when a second has gone by.
      jest.spyOn(performance, 'now').mockImplementation(() => now() + 5_000)
    }
    return connect()
  }) as never)
  try {
    await expect(get('export')).rejects.toThrow()
  } finally {
    jest.restoreAllMocks()
  }
})
