import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { planLimits } from '../../../src/contract/plan-limits.ts'
import { createRates, type Rates } from '../../../src/governance/limits/rates.ts'
import { testContext, withPeople, type TestContext } from '../support.ts'

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
