import { afterEach, describe, expect, jest, test } from '@jest/globals'
import {
  createEntry,
  createShares,
  type Place,
  type Shares,
} from '../../../src/governance/limits/request-shares.ts'

/** Whether the promise resolves without further events. */
async function isIn(entering: Promise<unknown>): Promise<boolean> {
  return Promise.race([entering.then(() => true), new Promise<boolean>((no) => setImmediate(no, false))])
}

describe('shares', () => {
  test('are large for an organization that is alone, and small beside another one', async () => {
    const shares = createShares(() => 0)
    const first = Array.from({ length: 64 }, () => shares.enter('a', 'small'))
    expect(await Promise.all(first.map(isIn))).not.toContain(false)
    expect(await isIn(shares.enter('a', 'small'))).toBe(false)
    const others = Array.from({ length: 4 }, () => shares.enter('b', 'small'))
    expect(await Promise.all(others.map(isIn))).not.toContain(false)
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
    const all = Array.from({ length: 1_002 }, () => shares.enter('a', 'large'))
    await Promise.all(all.slice(0, 2))
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
        visit: async (organizationId: string) => (await shares.enter(organizationId, 'small')).leave(),
      }
    }
    afterEach(() => void jest.useRealTimers())

    test.each([
      ['eight times the work', 1, 800],
      ['longer while the processors are overloaded', 2, 1_600],
    ])('delay an organization that uses more than its part: %s', async (_, strain, rest) => {
      const { shares, pass, work, visit } = busyShares(strain)
      await visit('b')
      const place = await shares.enter('a', 'large')
      work(place, 100)
      place.leave()
      const next = shares.enter('a', 'large')
      await pass(rest - 1)
      expect(await isIn(next)).toBe(false)
      await pass(1)
      expect(await isIn(next)).toBe(true)
    })

    test('count the work for a body that arrived before the request was admitted', async () => {
      const { shares, pass, visit } = busyShares()
      await visit('b')
      const entry = createEntry(shares, 'a')
      await entry.admit('large', 20)
      entry.leave()
      const next = shares.enter('a', 'large')
      await pass(159)
      expect(await isIn(next)).toBe(false)
      await pass(1)
      expect(await isIn(next)).toBe(true)
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
      const { shares, work } = busyShares()
      const theirs = await shares.enter('b', 'large')
      const mine = await Promise.all(Array.from({ length: 32 }, () => shares.enter('a', 'question')))
      for (const place of mine) work(place, 0.3)
      work(theirs, 100)
      theirs.leave()
      // Each request was in progress for 100 ms, but the thread did not work for it in that time.
      for (const place of mine) place.leave()
      const next = Array.from({ length: 32 }, () => shares.enter('a', 'question'))
      expect(await Promise.all(next.map(isIn))).not.toContain(false)
      expect(await isIn(shares.enter('b', 'large'))).toBe(false)
    })

    test('do not delay an organization that uses little, among any number of others', async () => {
      const { shares, work, visit } = busyShares()
      for (let n = 0; n < 100; n += 1) await visit(`idle ${n}`)
      const [mine, theirs] = [await shares.enter('a', 'large'), await shares.enter('b', 'large')]
      work(theirs, 400)
      theirs.leave()
      work(mine, 100)
      mine.leave()
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
      const next = shares.enter('a', 'large')
      // The request waits 640 ms: 8 × 8 × the 10 ms that were counted.
      await pass(639)
      expect(await isIn(next)).toBe(false)
      await pass(1)
      expect(await isIn(next)).toBe(true)
    })

    test('forget past use', async () => {
      const { shares, pass, work } = busyShares()
      for (const place of await Promise.all([1, 2, 3].map(() => shares.enter('a', 'small')))) {
        work(place, 100)
        place.leave()
      }
      await pass(9_000)
      const [mine, theirs] = [await shares.enter('a', 'large'), await shares.enter('b', 'small')]
      work(theirs, 100)
      theirs.leave()
      work(mine, 100)
      mine.leave()
      expect(await isIn(shares.enter('a', 'large'))).toBe(true)
    })

    test('space the refusals of one organization', async () => {
      const { shares, pass, visit } = busyShares()
      await visit('b')
      ;(await shares.enter('a', 'refusal')).leave()
      const next = shares.enter('a', 'refusal')
      expect(await isIn(next)).toBe(false)
      await pass(50)
      expect(await isIn(next)).toBe(true)
    })
  })
})
