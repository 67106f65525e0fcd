import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { callSlots, createCallPlaces, type CallPlace } from '../../src/activities/call-places.ts'
import { callsFor, settled } from './asked-places.ts'

let calls: ReturnType<typeof callsFor>
beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'queueMicrotask', 'nextTick'] })
  calls = callsFor(createCallPlaces(() => performance.now(), { isBusy: () => false, strain: () => 1 }))
})
afterEach(() => {
  jest.useRealTimers()
})

describe('places for calls', () => {
  test('long bodies of many organizations leave slots for others', async () => {
    calls('honest', 1)
    await settled()
    const hanging = async (organizationId: string): Promise<number> => {
      const { inside } = calls(organizationId, 100)
      for (let begun = 0; ;) {
        await settled()
        if (begun === inside.length) return inside.length
        for (const place of inside.slice(begun)) place.bodyBegins()
        begun = inside.length
        jest.advanceTimersByTime(100)
      }
    }
    let taken = 0
    for (let n = 0; n < 8; n += 1) taken += await hanging(`hanging ${n}`)
    // The calls of the last organizations stay at work, and do not count as `outside`.
    expect(taken).toBeLessThan(callSlots)
  })

  test('a long body that found no free slot leaves the calls at work once a slot is free', async () => {
    const others = Array.from({ length: 59 }, (_, n) => calls(`other ${n}`, 2).inside)
    const mine = calls('a', 2).inside
    await settled()
    for (const place of mine) place.bodyBegins()
    jest.advanceTimersByTime(100)
    const next = calls('a', 2).inside
    await settled()
    expect(next).toHaveLength(0)
    for (const place of others.flat()) place.leave()
    await settled()
    expect(next).toHaveLength(2)
  })

  test('a body that takes long makes room for the next call; a short one does not', async () => {
    calls('b', 1)
    const first = calls('a', 3)
    await settled()
    first.inside[0]?.bodyBegins()
    jest.advanceTimersByTime(99)
    await settled()
    expect(first.inside).toHaveLength(2)
    jest.advanceTimersByTime(1)
    await settled()
    expect(first.inside).toHaveLength(3)
    // A call that leaves its place twice frees one place.
    const [place] = first.inside
    place?.leave()
    place?.leave()
    calls('a', 1)
    await settled()
    expect(first.inside).toHaveLength(3)
  })

  test('several organizations with long bodies never take all slots', async () => {
    calls('honest', 1)
    const inside = (await Promise.all(['a', 'b', 'c', 'd'].map(hang))).flat()
    expect(inside.length).toBeLessThan(callSlots - 15)
  })

  /** Starts calls whose bodies never end, until no further call gets a place. */
  async function hang(organizationId: string): Promise<CallPlace[]> {
    const { inside } = calls(organizationId, 100)
    let begun = 0
    for (;;) {
      await settled()
      if (begun === inside.length) return inside
      for (const place of inside.slice(begun)) place.bodyBegins()
      begun = inside.length
      jest.advanceTimersByTime(100)
    }
  }
})
