import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { actOnce, forgetOldKeys, openKey, type Claim, type KeyUse } from '../../src/governance/idempotency.ts'
import { until } from '../stack/until.ts'
import { testContext, withPeople, type TestContext } from './support.ts'

let running: TestContext
let organizationId: string
let counter = 0
beforeAll(async () => {
  running = await testContext()
  organizationId = (await withPeople(running.context)).identities.organization_id
})
afterAll(() => running.close())

const newUse = (): KeyUse => ({
  organizationId,
  userId: 'usr_1',
  apiKeyId: 'key_1',
  route: 'POST /workflows',
  key: `k${(counter += 1)}`,
  bodyHash: 'a',
})

async function claim(use: KeyUse): Promise<Claim> {
  const opening = await openKey(running.context, use)
  if ('replay' in opening) throw new Error('an answer is there already')
  return opening.claim
}

const refusal = (code: 'idempotency_mismatch' | 'idempotency_in_progress') =>
  expect.objectContaining({ code })
const expectRefused = (use: KeyUse, code: Parameters<typeof refusal>[0]) =>
  expect(openKey(running.context, use)).rejects.toEqual(refusal(code))
const markActed = (holder: Claim, made?: { secret: string }) =>
  running.context.db.transaction().execute((trx) => holder.markActed(trx, made))
const rowOf = async ({ key }: KeyUse) =>
  (await running.context.pool.query('select * from idempotency_keys where key = $1', [key])).rows[0]
const ok = { status: 200, body: '{}' }

/** Moves one of the times in the key's row into the past. */
const age = (use: KeyUse, column: 'locked_until' | 'created_at', interval: string) =>
  running.context.pool.query(
    `update idempotency_keys set ${column} = ${column} - interval '${interval}' where key = $1`,
    [use.key],
  )

describe('an idempotency key', () => {
  // A holder renews its lock with `setInterval`. Fake timers ensure that this happens only when a test says so.
  beforeEach(() => {
    jest.useFakeTimers({ doNotFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'nextTick', 'queueMicrotask', 'Date', 'performance', 'hrtime'] }) // prettier-ignore
  })
  afterEach(() => {
    jest.useRealTimers()
  })

  test('gives the first answer again, and stores it sealed', async () => {
    const use = newUse()
    await (await claim(use)).keep({ status: 201, body: '{"id":"secret"}' })
    expect(await openKey(running.context, use)).toEqual({ replay: { status: 201, body: '{"id":"secret"}' } })
    const { response_body: sealed } = await rowOf(use)
    expect(sealed).not.toContain('secret')
    expect(Buffer.from(sealed, 'base64').toString('latin1')).not.toContain('secret')
    // An answer without a body stays without one.
    const empty = newUse()
    await (await claim(empty)).keep({ status: 204, body: null })
    expect(await openKey(running.context, empty)).toEqual({ replay: { status: 204, body: null } })
  })

  test('of concurrent calls only one acts', async () => {
    const use = newUse()
    const openings = await Promise.allSettled(
      Array.from({ length: 8 }, () => openKey(running.another(), use)),
    )
    const [winner, ...more] = openings.filter((opening) => opening.status === 'fulfilled')
    expect(more).toEqual([])
    const reason = refusal('idempotency_in_progress')
    for (const opening of openings)
      if (opening !== winner) expect(opening).toEqual({ status: 'rejected', reason })
    if (winner !== undefined && 'claim' in winner.value) await winner.value.claim.release()
  })

  test('with another body is refused, during the first call and after it', async () => {
    const use = newUse()
    const first = await claim(use)
    await expectRefused({ ...use, bodyHash: 'b' }, 'idempotency_mismatch')
    await first.keep(ok)
    await expectRefused({ ...use, bodyHash: 'b' }, 'idempotency_mismatch')
  })

  test('is another use for another person, API key or route', async () => {
    const use = newUse()
    await (await claim(use)).keep(ok)
    for (const other of [
      { ...use, userId: 'usr_2' },
      { ...use, apiKeyId: 'key_2' },
      { ...use, route: 'POST /api-keys' },
    ])
      await (await claim(other)).release()
  })

  test('of a dead process is free again when its lock has expired, for the same body only', async () => {
    const use = newUse()
    const dead = await claim(use)
    await expectRefused(use, 'idempotency_in_progress')
    await age(use, 'locked_until', '1 hour')
    await expectRefused({ ...use, bodyHash: 'b' }, 'idempotency_mismatch')
    const heir = await claim(use)
    // A process that was wrongly considered dead must not overwrite or release the key after another process has taken
    // it over.
    await dead.keep({ status: 500, body: 'late' })
    await dead.release()
    await expectRefused(use, 'idempotency_in_progress')
    await heir.keep(ok)
    expect(await openKey(running.context, use)).toEqual({ replay: ok })
  })

  test('shows a later holder that the act was done, and keeps the earlier holder from acting', async () => {
    const use = newUse()
    const dead = await claim(use)
    expect(dead.acted).toBe(false)
    const failed = running.context.db.transaction().execute(async (trx) => {
      await dead.markActed(trx)
      throw new Error('the act failed')
    })
    await expect(failed).rejects.toThrow('the act failed')
    await age(use, 'locked_until', '1 hour')
    const heir = await claim(use)
    expect(heir.acted).toBe(false)
    await expect(markActed(dead)).rejects.toEqual(refusal('idempotency_in_progress'))
    await markActed(heir)
    await heir.release()
    await expectRefused({ ...use, bodyHash: 'b' }, 'idempotency_mismatch')
    expect((await claim(use)).acted).toBe(true)
  })

  test('stores the result of the act, sealed, for a later holder until an answer exists', async () => {
    const use = newUse()
    await markActed(await claim(use), { secret: 'hidden' })
    const { made } = await rowOf(use)
    expect(Buffer.from(made, 'base64').toString('latin1')).not.toContain('hidden')
    await age(use, 'locked_until', '1 hour')
    const heir = await claim(use)
    const act = jest.fn(() => Promise.resolve({ secret: 'another' }))
    expect(await actOnce(heir, act)).toEqual({ secret: 'hidden' })
    expect(act).not.toHaveBeenCalled()
    await heir.keep({ status: 201, body: '{}' })
    expect((await rowOf(use)).made).toBeNull()
  })

  test('can be used for another act after 24 hours', async () => {
    const use = newUse()
    await markActed(await claim(use), { secret: 'hidden' })
    await age(use, 'created_at', '25 hours')
    await age(use, 'locked_until', '25 hours')
    const next = await claim({ ...use, bodyHash: 'b' })
    expect([next.acted, next.made]).toEqual([false, undefined])
    expect(await actOnce(next, () => Promise.resolve({ id: 'new' }))).toEqual({ id: 'new' })
    await next.release()
  })

  test('is locked for seconds, and renewed while its holder lives', async () => {
    const use = newUse()
    const left = async (): Promise<number> => {
      const remaining = 'extract(epoch from locked_until - clock_timestamp())::float as left'
      const sql = `select ${remaining} from idempotency_keys where key = $1`
      return (await running.context.pool.query(sql, [use.key])).rows[0].left
    }
    const holder = await claim(use)
    expect(await left()).toBeLessThanOrEqual(5)
    await age(use, 'locked_until', '1 hour')
    jest.advanceTimersByTime(1_500)
    await until('the lock is renewed', async () => (await left()) > 0)
    await holder.release()
    expect(jest.getTimerCount()).toBe(0)
  })

  test('may be used with another body after its release', async () => {
    const use = newUse()
    await (await claim(use)).release()
    await (await claim({ ...use, bodyHash: 'b' })).release()
  })

  test('is deleted after 24 hours, not earlier', async () => {
    const [old, young] = [newUse(), newUse()]
    for (const use of [old, young]) await (await claim(use)).keep(ok)
    await age(old, 'created_at', '24 hours 1 second')
    await age(young, 'created_at', '23 hours')
    const again = await claim({ ...old, bodyHash: 'b' })
    await again.keep({ status: 201, body: '{}' })
    await age(old, 'created_at', '25 hours')
    await forgetOldKeys(running.context.db)
    expect([await rowOf(old), await rowOf(young)]).toEqual([undefined, expect.anything()])
  })
})
