import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { callSlots, createCallPlaces } from '../../src/activities/call-places.ts'
import { callsFor, never, settled } from './asked-places.ts'

let calls: ReturnType<typeof callsFor>
let isBusy = false
let strain = 1
beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'queueMicrotask', 'nextTick'] })
  isBusy = false
  strain = 1
  calls = callsFor(createCallPlaces(() => performance.now(), { isBusy: () => isBusy, strain: () => strain }))
})
afterEach(() => {
  jest.useRealTimers()
})

describe('places for calls', () => {
  test('one organization gets 100 of the 120 slots, and two beside another organization', async () => {
    const first = calls('a', 130)
    await settled()
    expect([callSlots, first.inside.length]).toEqual([120, 100])
    const other = calls('b', 5)
    await settled()
    expect(other.inside).toHaveLength(2)
    // The first organization gets no further place while more than one of its calls is at work.
    for (const place of first.inside.slice(0, 98)) place.leave()
    await settled()
    expect(first.inside).toHaveLength(100)
    first.inside[98]?.leave()
    await settled()
    expect(first.inside).toHaveLength(101)
    other.inside[0]?.leave()
    await settled()
    expect(other.inside).toHaveLength(3)
  })

  test('a quick call gives up after a tenth of a second, and is an ordinary activity then', async () => {
    const other = calls('b', 1)
    const first = calls('a', 4, never, true)
    await settled()
    expect([other.inside.length, first.inside.length, first.failures.length]).toEqual([1, 2, 0])
    jest.advanceTimersByTime(101)
    await settled()
    expect(first.failures.map(({ nextRetryDelay }) => nextRetryDelay)).toEqual([0, 0])
    first.inside[0]?.leave()
    await settled()
    expect(first.inside).toHaveLength(2)
  })

  test('the share is whole again ten seconds after the other organization’s last call', async () => {
    const other = calls('b', 1)
    await settled()
    other.inside[0]?.leave()
    const first = calls('a', 4)
    await settled()
    expect(first.inside).toHaveLength(2)
    jest.advanceTimersByTime(10_001)
    const later = calls('a', 1)
    await settled()
    expect([first.inside.length, later.inside.length]).toEqual([2, 1])
    first.inside[0]?.leave()
    await settled()
    expect(first.inside).toHaveLength(4)
  })

  describe('on a busy thread', () => {
    beforeEach(() => {
      isBusy = true
    })
    /** The organization uses places for this many milliseconds. */
    const use = async (organizationId: string, milliseconds: number): Promise<void> => {
      const [place] = await called(organizationId, 1)
      jest.advanceTimersByTime(milliseconds)
      place?.leave()
    }
    const called = async (organizationId: string, count: number) => {
      const { inside } = calls(organizationId, count)
      await settled()
      return inside
    }

    test.each([
      ['usually', 1, 400],
      ['longer while the processors are overloaded', 2, 800],
    ])(
      'a place rests for eight times its call, if the organization uses more than its part; %s',
      async (_, times, rest) => {
        strain = times
        await use('b', 1)
        const inside = await called('a', 3)
        jest.advanceTimersByTime(50)
        inside[0]?.leave()
        jest.advanceTimersByTime(rest - 1)
        await settled()
        expect(inside).toHaveLength(2)
        jest.advanceTimersByTime(1)
        await settled()
        expect(inside).toHaveLength(3)
      },
    )

    test('quick calls without a place come again later, the more of them wait and the longer their places rest', async () => {
      await use('b', 1)
      const delays = async (count: number): Promise<number[]> => {
        const { failures } = calls('a', count, never, true)
        await settled()
        jest.advanceTimersByTime(101)
        await settled()
        return failures.map(({ nextRetryDelay }) => Number(nextRetryDelay))
      }
      const inside = await called('a', 2)
      jest.advanceTimersByTime(50)
      await use('b', 1)
      for (const place of inside) place.leave()
      jest.advanceTimersByTime(450)
      await settled()
      // Both places were taken for about 450 ms. Each counts for a fifth, so a call takes a place for about 162 ms.
      await called('a', 2)
      const [first, ...others] = await delays(10)
      expect(Math.abs(Number(first) - (10 * 162) / 2 / 2)).toBeLessThan(20)
      expect([...others, 0]).toEqual([...others, 0].toSorted((a, b) => b - a))
      expect(await delays(100)).toContain(2_000)
    })

    test('a place rests for a second at most', async () => {
      await use('b', 1)
      const inside = await called('a', 3)
      jest.advanceTimersByTime(1_900)
      inside[0]?.leave()
      const rests = await called('b', 1)
      jest.advanceTimersByTime(999)
      await settled()
      expect([rests.length, inside.length]).toEqual([1, 2])
      jest.advanceTimersByTime(1)
      await settled()
      expect(inside).toHaveLength(3)
    })

    test('a pause ends once the thread is idle', async () => {
      await use('b', 1)
      const inside = await called('a', 3)
      jest.advanceTimersByTime(90)
      inside[0]?.leave()
      isBusy = false
      jest.advanceTimersByTime(50)
      await settled()
      expect(inside).toHaveLength(3)
    })

    test('nobody pauses for an organization that was not served in two seconds', async () => {
      await use('b', 1)
      jest.advanceTimersByTime(2_000)
      const inside = await called('a', 3)
      jest.advanceTimersByTime(50)
      inside[0]?.leave()
      await settled()
      expect(inside).toHaveLength(3)
    })

    test('a call with a long body takes no rest, because it only waited for something outside', async () => {
      await use('b', 1)
      const inside = await called('a', 3)
      inside[0]?.bodyBegins()
      jest.advanceTimersByTime(1_000)
      await settled()
      expect(inside).toHaveLength(3)
      inside[0]?.leave()
      inside[1]?.leave()
      const later = await called('a', 1)
      expect(later).toHaveLength(0)
    })

    test.each([
      ['alone', () => undefined],
      ['on an idle thread', () => use('b', 1).then(() => void (isBusy = false))],
      ['an organization that uses less than its part', () => use('b', 5_000)],
    ])('%s: a place does not rest', async (_, before) => {
      await before()
      const inside = await called('a', 101)
      const first = inside.length
      jest.advanceTimersByTime(50)
      inside[0]?.leave()
      await settled()
      expect(inside).toHaveLength(first + 1)
    })
  })

  test('while no slot becomes free, waiting calls of the longest line give theirs back, the latest first', async () => {
    const first = calls('a', 115)
    const other = calls('b', 4)
    await settled()
    jest.advanceTimersByTime(1_000)
    await settled()
    expect([first.failures, other.failures]).toEqual([[], []])
    const last = calls('a', 1)
    await settled()
    jest.advanceTimersByTime(99)
    await settled()
    expect(last.failures).toEqual([])
    jest.advanceTimersByTime(1)
    await settled()
    expect(last.failures).toMatchObject([{ type: 'Unavailable', category: 'BENIGN' }])
    expect(last.failures[0]?.nextRetryDelay).toBeGreaterThanOrEqual(2_500)
    // Now a slot is free.
    jest.advanceTimersByTime(10_000)
    await settled()
    expect([first.failures, other.failures]).toEqual([[], []])
  })

  test('no call gives its slot back while slots become free in time', async () => {
    const first = calls('a', 120)
    await settled()
    for (let n = 0; n < 10; n += 1) {
      jest.advanceTimersByTime(99)
      first.inside[n]?.leave()
      const next = calls('a', 1)
      await settled()
      expect([...first.failures, ...next.failures]).toEqual([])
    }
    expect(first.inside).toHaveLength(110)
  })

  test('a cancelled call leaves the line', async () => {
    calls('b', 1)
    const first = calls('a', 2)
    const controller = new AbortController()
    const cancelled = calls('a', 1, controller.signal)
    const next = calls('a', 1)
    await settled()
    controller.abort(new Error('CANCELLED'))
    await settled()
    expect(cancelled.failures).toMatchObject([{ message: 'CANCELLED' }])
    first.inside[0]?.leave()
    await settled()
    expect([cancelled.inside.length, next.inside.length]).toEqual([0, 1])
  })
})
