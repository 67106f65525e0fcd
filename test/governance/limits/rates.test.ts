import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { planLimits } from '../../../src/contract/plan-limits.ts'
import { createRates, type Rates } from '../../../src/governance/limits/rates.ts'
import { testContext, withPeople, type TestContext } from '../support.ts'
import {
  createEntry,
  createShares,
  type Place,
  type Shares,
} from '../../../src/governance/limits/request-shares.ts'
import { createThreadLoad, strainAfter } from '../../../src/governance/limits/thread-use.ts'
import { createUploads, inTurn, reserveMemory } from '../../../src/governance/files/uploads.ts'

let running: TestContext
let organization: string
beforeAll(async () => {
  running = await testContext()
  organization = (await withPeople(running.context)).identities.organization_id
})
afterAll(() => running?.close())
/** Each `Rates` stands for a separate process. */
let [a, b] = [] as unknown as [Rates, Rates]
beforeEach(async () => {
  await running.context.pool.query(`update request_windows set started_at = started_at - interval '2 days'`)
  ;[a, b] = [createRates(running.context.db), createRates(running.context.db)]
})

const limitsOf = (minute: number, day = 1_000_000) => ({
  ...planLimits.free,
  requests_per_minute: minute,
  requests_per_day: day,
})
const take = (rates: Rates, limits: ReturnType<typeof limitsOf>) =>
  rates.take(organization, limits, 'requests')
/** The number of allowed requests. All of them are in one window (same `resetAt`). */
async function allowed(rates: Rates, count: number, limits = limitsOf(60)): Promise<number> {
  const taken = await Promise.all(Array.from({ length: count }, () => take(rates, limits)))
  return taken.filter((each) => each.allowed).length
}
/** Waits until enough of the current minute is left for a test that counts within a minute. */
async function earlyInTheMinute(): Promise<void> {
  for (;;) {
    const { rows } = await running.context.pool.query<{ s: number }>(
      `select extract(second from clock_timestamp())::float8 as s`,
    )
    if ((rows[0]?.s ?? 0) < 45) return
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}

describe('requests of an organization', () => {
  beforeEach(earlyInTheMinute)

  test('are allowed up to the limit and not one more, and the answer has the number left', async () => {
    expect(await take(a, limitsOf(60))).toMatchObject({
      allowed: true,
      bucket: 'requests_per_minute',
      limit: 60,
      remaining: 59,
    })
    expect(await allowed(a, 70)).toBe(59)
    const refused = await take(a, limitsOf(60))
    expect(refused).toMatchObject({ allowed: false, bucket: 'requests_per_minute', remaining: 0 })
    expect(refused.retryAfter).toBeGreaterThan(0)
    expect(refused.retryAfter).toBeLessThanOrEqual(60)
    expect(refused.resetAt % 60).toBe(0)
  })

  test('are limited across two processes together', async () => {
    const counts = await Promise.all([allowed(a, 60), allowed(b, 60)])
    expect(counts[0] + counts[1]).toBe(60)
  })

  test('a day’s limit refuses while the minute has requests left, and a refused request is not counted', async () => {
    expect(await allowed(a, 30, limitsOf(60, 20))).toBe(20)
    expect(await take(a, limitsOf(60, 20))).toMatchObject({
      allowed: false,
      bucket: 'requests_per_day',
      limit: 20,
    })
    expect(await take(a, limitsOf(60, 30))).toMatchObject({ allowed: true })
    expect(await allowed(a, 60, limitsOf(60, 1_000))).toBe(39)
  })

  test('a changed limit holds at once in every process, also for leased blocks', async () => {
    expect(await allowed(a, 2, limitsOf(600))).toBe(2)
    expect(await allowed(b, 2, limitsOf(600))).toBe(2)
    expect((await allowed(a, 20, limitsOf(10))) + (await allowed(b, 20, limitsOf(10)))).toBeLessThanOrEqual(6)
    expect(await allowed(b, 1, limitsOf(10))).toBe(0)
    expect(await allowed(b, 50, limitsOf(100))).toBe(50)
    expect(
      (await allowed(a, 100, limitsOf(100))) + (await allowed(b, 100, limitsOf(100))),
    ).toBeLessThanOrEqual(46)
  })

  test('agents’ requests have a separate bucket', async () => {
    const limits = { ...limitsOf(1), authorize_per_minute: 2 }
    const of = (kind: 'requests' | 'authorize' | 'reports') => a.take(organization, limits, kind)
    expect(await of('requests')).toMatchObject({ allowed: true })
    expect(await of('requests')).toMatchObject({ allowed: false })
    expect(await of('authorize')).toMatchObject({ allowed: true, bucket: 'authorize_per_minute' })
    expect(await of('authorize')).toMatchObject({ allowed: true, remaining: 0 })
    expect(await of('authorize')).toMatchObject({ allowed: false })
    for (const allowed of [true, true, false])
      expect(await of('reports')).toMatchObject({ allowed, bucket: 'agent_reports_per_minute', limit: 2 })
  })

  test('many requests need few queries', async () => {
    let leases = 0
    const counting = new Proxy(running.context.db, {
      get: (db, name) => {
        if (name === 'getExecutor') leases += 1
        const value: unknown = Reflect.get(db, name, db)
        return typeof value === 'function' ? value.bind(db) : value
      },
    })
    expect(await allowed(createRates(counting), 2_000, limitsOf(100_000))).toBe(2_000)
    expect(leases).toBeGreaterThan(0)
    expect(leases).toBeLessThan(20)
  })

  test('a stopping process returns its unused requests; a killed one wastes few of the day', async () => {
    const limits = limitsOf(1_000, 1_000)
    const taken = async (bucket: string): Promise<unknown[]> => {
      const sql = 'select taken from request_windows where organization_id = $1 and bucket like $2'
      return (await running.context.pool.query(sql, [organization, bucket])).rows.map((row) => row.taken)
    }
    await take(a, limits)
    await a.close()
    expect((await take(b, limits)).allowed).toBe(true)
    // One used request of the stopped process, and one block of the remaining process.
    expect((await taken('requests_per_day'))[0]).toBeLessThanOrEqual(1 + Math.ceil(1_000 / 64))
    await b.close()
    expect(await taken('requests_%')).toEqual([2, 2])
  })
})

/** Whether the promise resolves without further events. */
async function isIn(entering: Promise<unknown>): Promise<boolean> {
  return Promise.race([entering.then(() => true), new Promise<boolean>((no) => setImmediate(no, false))])
}

describe('shares', () => {
  const admitted = async (all: readonly Promise<unknown>[]) =>
    expect(await Promise.all(all.map(isIn))).not.toContain(false)
  const many = (shares: Shares, count: number, id: string, kind: Parameters<Shares['enter']>[1]) =>
    Array.from({ length: count }, () => shares.enter(id, kind))

  test('are large for an organization that is alone, and small beside another one', async () => {
    const shares = createShares(() => 0)
    await admitted(many(shares, 64, 'a', 'small'))
    expect(await isIn(shares.enter('a', 'small'))).toBe(false)
    await admitted(many(shares, 4, 'b', 'small'))
    expect(await isIn(shares.enter('b', 'small'))).toBe(false)
  })

  test('admit the next request when one ends, in order', async () => {
    const shares = createShares(() => 0)
    await shares.enter('b', 'small')
    const { leave } = await shares.enter('a', 'large')
    const order: number[] = []
    const waiting = [1, 2].map(async (n) => {
      const end = await shares.enter('a', 'large')
      order.push(n)
      return end
    })
    await isIn(waiting[0] as Promise<unknown>)
    expect(order).toEqual([])
    leave()
    leave()
    const second = await (waiting[0] as Promise<Place>)
    expect(await isIn(waiting[1] as Promise<unknown>)).toBe(false)
    second.leave()
    await waiting[1]
    expect(order).toEqual([1, 2])
  })

  test('are large again after the other organization has sent nothing for ten seconds', async () => {
    let now = 0
    const shares = createShares(() => now)
    await shares.enter('b', 'large')
    await shares.enter('a', 'large')
    expect(await isIn(shares.enter('a', 'large'))).toBe(false)
    now = 10_001
    expect(await isIn(shares.enter('c', 'large'))).toBe(true)
    expect(await isIn(shares.enter('c', 'large'))).toBe(true)
  })

  test('refuse a request when a thousand wait', async () => {
    const shares = createShares(() => 0)
    await Promise.all(many(shares, 1_002, 'a', 'large').slice(0, 2))
    await expect(shares.enter('a', 'large')).rejects.toMatchObject({ code: 'rate_limited' })
    expect(await isIn(shares.enter('b', 'large'))).toBe(true)
  })

  test('count a request once, even if it is admitted or ended repeatedly', async () => {
    const shares = createShares(() => 0)
    await shares.enter('b', 'large')
    const entry = createEntry(shares, 'a')
    await entry.admit('large')
    await entry.admit('small')
    const next = shares.enter('a', 'large')
    expect(await isIn(next)).toBe(false)
    entry.leave()
    entry.leave()
    expect(await isIn(next)).toBe(true)
    expect(await isIn(shares.enter('a', 'large'))).toBe(false)
  })

  describe('on a busy thread', () => {
    const busyShares = (strain = 1) => {
      jest.useFakeTimers({ doNotFake: ['setImmediate', 'performance', 'nextTick', 'queueMicrotask'] })
      let now = 0
      const shares: Shares = createShares(() => now, { isBusy: () => true, strain: () => strain })
      return {
        shares,
        pass: async (milliseconds: number) => {
          now += milliseconds
          await jest.advanceTimersByTimeAsync(milliseconds)
        },
        /** The thread works only for this request during these milliseconds. */
        work: (place: Place, milliseconds: number) => {
          place.works()
          now += milliseconds
        },
        /** The thread works for this request, which then ends. */
        finish: (place: Place, milliseconds: number) => {
          place.works()
          now += milliseconds
          place.leave()
        },
        visit: async (organizationId: string) => (await shares.enter(organizationId, 'small')).leave(),
      }
    }
    afterEach(() => void jest.useRealTimers())
    /** Expects that the request enters after exactly these milliseconds. */
    const entersAfter = async (
      next: Promise<unknown>,
      milliseconds: number,
      pass: (ms: number) => Promise<void>,
    ) => {
      await pass(milliseconds - 1)
      expect(await isIn(next)).toBe(false)
      await pass(1)
      expect(await isIn(next)).toBe(true)
    }

    test.each([
      ['eight times the work', 1, 800],
      ['longer while the processors are overloaded', 2, 1_600],
    ])('delay an organization that uses more than its part: %s', async (_, strain, rest) => {
      const { shares, pass, finish, visit } = busyShares(strain)
      await visit('b')
      const place = await shares.enter('a', 'large')
      finish(place, 100)
      await entersAfter(shares.enter('a', 'large'), rest, pass)
    })

    test('count the work for a body that arrived before the request was admitted', async () => {
      const { shares, pass, visit } = busyShares()
      await visit('b')
      const entry = createEntry(shares, 'a')
      await entry.admit('large', 20)
      entry.leave()
      await entersAfter(shares.enter('a', 'large'), 160, pass)
    })

    test('do not delay an organization that uses at most its part', async () => {
      const { shares, work } = busyShares()
      const [first, second] = [await shares.enter('a', 'large'), await shares.enter('b', 'large')]
      work(first, 100)
      work(second, 100)
      first.leave()
      second.leave()
      expect(await isIn(shares.enter('b', 'large'))).toBe(true)
    })

    test('do not delay an organization whose many small requests wait for another one', async () => {
      const { shares, work, finish } = busyShares()
      const theirs = await shares.enter('b', 'large')
      const mine = await Promise.all(many(shares, 32, 'a', 'question'))
      for (const place of mine) work(place, 0.3)
      finish(theirs, 100)
      // Each request was in progress for 100 ms, but the thread did not work for it in that time.
      for (const place of mine) place.leave()
      await admitted(many(shares, 32, 'a', 'question'))
      expect(await isIn(shares.enter('b', 'large'))).toBe(false)
    })

    test('do not delay an organization that uses little, among any number of others', async () => {
      const { shares, finish, visit } = busyShares()
      for (let n = 0; n < 100; n += 1) await visit(`idle ${n}`)
      const [mine, theirs] = [await shares.enter('a', 'large'), await shares.enter('b', 'large')]
      finish(theirs, 400)
      finish(mine, 100)
      expect(await isIn(shares.enter('a', 'large'))).toBe(true)
      expect(await isIn(shares.enter('b', 'large'))).toBe(false)
    })

    test('count the work that follows at once, but not the waiting of a request', async () => {
      const { shares, pass, work, visit } = busyShares()
      await visit('b')
      const place = await shares.enter('a', 'large')
      work(place, 10)
      await new Promise(setImmediate)
      await pass(1_000)
      place.leave()
      // The request waits 640 ms: 8 × 8 × the 10 ms that were counted.
      await entersAfter(shares.enter('a', 'large'), 640, pass)
    })

    test('forget past use', async () => {
      const { shares, pass, finish } = busyShares()
      for (const place of await Promise.all(many(shares, 3, 'a', 'small'))) finish(place, 100)
      await pass(9_000)
      const [mine, theirs] = [await shares.enter('a', 'large'), await shares.enter('b', 'small')]
      finish(theirs, 100)
      finish(mine, 100)
      expect(await isIn(shares.enter('a', 'large'))).toBe(true)
    })

    test('space the refusals of one organization', async () => {
      const { shares, pass, visit } = busyShares()
      await visit('b')
      ;(await shares.enter('a', 'refusal')).leave()
      await entersAfter(shares.enter('a', 'refusal'), 50, pass)
    })
  })
})

test.each([
  ['a thread that works all the time', { utilization: 0.9, waited: 0, windows: 1 }, 'rises'],
  ['a thread that waits for a processor', { utilization: 0.3, waited: 0.5, windows: 1 }, 'rises'],
  ['a thread with a processor of its own', { utilization: 0.7, waited: 0.1, windows: 1 }, 'falls'],
  ['a thread that hardly works', { utilization: 0.05, waited: 0.9, windows: 1 }, 'falls'],
])('the strain of %s', (_, measured, way) => {
  const after = strainAfter(4, measured)
  expect(after > 4 ? 'rises' : 'falls').toBe(way)
})

test('the strain is between 1 and 16, and falls with the time that passes', () => {
  const [full, idle] = [
    { utilization: 1, waited: 0, windows: 1 },
    { utilization: 0, waited: 0, windows: 1 },
  ]
  let strain = 1
  for (let n = 0; n < 100; n += 1) strain = strainAfter(strain, full)
  expect(strain).toBe(16)
  const twice = strainAfter(strainAfter(strain, idle), idle)
  expect(strainAfter(strain, { ...idle, windows: 2 })).toBeCloseTo(twice)
  expect(strainAfter(strain, { ...idle, windows: 1_000 })).toBe(1)
})

test('a thread that works all the time is busy', () => {
  const load = createThreadLoad(0.35)
  expect(load.isBusy()).toBe(false)
  const end = performance.now() + 150
  while (performance.now() < end);
  expect(load.isBusy()).toBe(true)
  expect(load.strain()).toBeGreaterThan(1)
})

describe('uploads', () => {
  const mebibyte = 1024 ** 2
  const never = new AbortController().signal

  /** Simulated work that continues until the test ends it. */
  function work() {
    const end = Promise.withResolvers<void>()
    let isRunning = false
    return {
      run: () => {
        isRunning = true
        return end.promise
      },
      isRunning: () => isRunning,
      end: end.resolve,
    }
  }
  const settled = () => new Promise((resolve) => setImmediate(resolve))

  test('of one organization read two files at once, and leaves the other two places to others', async () => {
    const uploads = createUploads()
    const greedy = Array.from({ length: 10 }, work)
    const small = work()
    const all = greedy.map(({ run }) => inTurn(uploads, 'org_a', never, run))
    await settled()
    expect(greedy.map(({ isRunning }) => isRunning()).filter(Boolean)).toHaveLength(2)
    all.push(inTurn(uploads, 'org_b', never, small.run))
    await settled()
    expect(small.isRunning()).toBe(true)
    for (const each of [...greedy, small]) each.end()
    await Promise.all(all)
  })

  test('of one organization reserve half of the memory, and another one gets its own at once', async () => {
    const uploads = createUploads()
    const size = 25 * mebibyte
    const held = await Promise.all([1, 2].map(() => reserveMemory(uploads, 'org_a', size, never)))
    const third = reserveMemory(uploads, 'org_a', size, never)
    const other = await Promise.all([1, 2].map(() => reserveMemory(uploads, 'org_b', size, never)))
    expect(await isIn(third)).toBe(false)
    held[0]?.release()
    ;(await third).release()
    for (const each of [held[1], ...other]) each?.release()
  })

  test('that are given up wait no more, and leave their place', async () => {
    const uploads = createUploads()
    const busy = [work(), work()]
    const running = busy.map(({ run }) => inTurn(uploads, 'org_a', never, run))
    const gone = new AbortController()
    const waiting = inTurn(uploads, 'org_a', gone.signal, async () => 'read')
    gone.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'unavailable' })
    for (const each of busy) each.end()
    await Promise.all(running)
    expect(await inTurn(uploads, 'org_a', never, async () => 'read')).toBe('read')
  })

  test('of files that cannot be read free their place', async () => {
    const uploads = createUploads()
    for (let each = 0; each < 5; each += 1)
      await expect(
        inTurn(uploads, 'org_a', never, () => Promise.reject(new Error('damaged'))),
      ).rejects.toThrow('damaged')
    expect(await inTurn(uploads, 'org_a', never, async () => 'read')).toBe('read')
  })
})
