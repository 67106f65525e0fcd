import fc from 'fast-check'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { FairShare, type Permit } from '../../../src/governance/limits/fair-share.ts'
import { createEntry, createShares, type Shares } from '../../../src/governance/limits/shares.ts'
import { createThreadLoad, strainAfter, ThreadUse } from '../../../src/governance/limits/thread-use.ts'

/** Whether the promise resolves without further events. */
async function isIn(entering: Promise<unknown>): Promise<boolean> {
  return Promise.race([entering.then(() => true), new Promise<boolean>((no) => setImmediate(no, false))])
}

const tick = () => new Promise((resolve) => setImmediate(resolve))

describe('shares', () => {
  const admitted = async (all: readonly Promise<unknown>[]) =>
    expect(await Promise.all(all.map(isIn))).not.toContain(false)
  const many = (shares: Shares, count: number, id: string, kind: keyof Shares) =>
    Array.from({ length: count }, () => shares[kind].enter(id))

  test('are large for an organization that is alone, and small beside another one', async () => {
    const shares = createShares(new ThreadUse(() => 0))
    await admitted(many(shares, 64, 'a', 'small'))
    expect(await isIn(shares.small.enter('a'))).toBe(false)
    await admitted(many(shares, 4, 'b', 'small'))
    expect(await isIn(shares.small.enter('b'))).toBe(false)
  })

  test('admit the next request when one ends, in order', async () => {
    const shares = createShares(new ThreadUse(() => 0))
    await shares.small.enter('b')
    const { release } = await shares.large.enter('a')
    const order: number[] = []
    const waiting = [1, 2].map(async (n) => {
      const end = await shares.large.enter('a')
      order.push(n)
      return end
    })
    await isIn(waiting[0] as Promise<unknown>)
    expect(order).toEqual([])
    release()
    release()
    const second = await (waiting[0] as Promise<Permit>)
    expect(await isIn(waiting[1] as Promise<unknown>)).toBe(false)
    second.release()
    await waiting[1]
    expect(order).toEqual([1, 2])
  })

  test('are large again after the other organization has sent nothing for ten seconds', async () => {
    let now = 0
    const shares = createShares(new ThreadUse(() => now))
    const theirs = await shares.large.enter('b')
    const mine = await shares.large.enter('a')
    expect(await isIn(shares.large.enter('b'))).toBe(false)
    theirs.release()
    now = 20_000
    // The second request of the other organization is still in progress.
    await admitted(many(shares, 1, 'c', 'large'))
    expect(await isIn(shares.large.enter('c'))).toBe(false)
    mine.release()
  })

  test('refuse a request when a thousand wait', async () => {
    const shares = createShares(new ThreadUse(() => 0))
    await Promise.all(many(shares, 1_002, 'a', 'large').slice(0, 2))
    await expect(shares.large.enter('a')).rejects.toMatchObject({ code: 'rate_limited' })
    expect(await isIn(shares.large.enter('b'))).toBe(true)
  })

  test('count a request once, even if it is admitted or ended repeatedly', async () => {
    const shares = createShares(new ThreadUse(() => 0))
    await shares.large.enter('b')
    const entry = createEntry(shares, 'a')
    await entry.admit('large')
    await entry.admit('small')
    const next = shares.large.enter('a')
    expect(await isIn(next)).toBe(false)
    entry.leave()
    entry.leave()
    expect(await isIn(next)).toBe(true)
    expect(await isIn(shares.large.enter('a'))).toBe(false)
  })

  describe('on a busy thread', () => {
    const busyShares = (strain = 1) => {
      jest.useFakeTimers({ doNotFake: ['setImmediate', 'performance', 'nextTick', 'queueMicrotask'] })
      let now = 0
      const shares: Shares = createShares(
        new ThreadUse(() => now, { isBusy: () => true, strain: () => strain }),
      )
      return {
        shares,
        pass: async (milliseconds: number) => {
          now += milliseconds
          await jest.advanceTimersByTimeAsync(milliseconds)
        },
        /** The thread works only for this request during these milliseconds. */
        work: (permit: Permit, milliseconds: number) => {
          permit.works()
          now += milliseconds
        },
        /** The thread works for this request, which then ends. */
        finish: (permit: Permit, milliseconds: number) => {
          permit.works()
          now += milliseconds
          permit.release()
        },
        visit: async (organizationId: string) => (await shares.small.enter(organizationId)).release(),
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
      [100, 800],
      [1_000, 2_000],
    ])('delay an organization that uses more than its part: after %s ms by %s ms', async (work, pause) => {
      const { shares, pass, finish, visit } = busyShares()
      await visit('b')
      finish(await shares.large.enter('a'), work)
      await entersAfter(shares.large.enter('a'), pause, pass)
    })

    test('are longer while the processors are overloaded', async () => {
      const { shares, pass, finish, visit } = busyShares(2)
      await visit('b')
      finish(await shares.large.enter('a'), 100)
      await entersAfter(shares.large.enter('a'), 1_600, pass)
    })

    test('count the work for a body that arrived before the request was admitted', async () => {
      const { shares, pass, visit } = busyShares()
      await visit('b')
      const entry = createEntry(shares, 'a')
      await entry.admit('large', 20)
      entry.leave()
      await entersAfter(shares.large.enter('a'), 160, pass)
    })

    test('do not delay an organization that uses at most its part', async () => {
      const { shares, work } = busyShares()
      const [first, second] = [await shares.large.enter('a'), await shares.large.enter('b')]
      work(first, 100)
      work(second, 100)
      first.release()
      second.release()
      expect(await isIn(shares.large.enter('b'))).toBe(true)
    })

    test('do not delay an organization whose many small requests wait for another one', async () => {
      const { shares, work, finish } = busyShares()
      const theirs = await shares.large.enter('b')
      const mine = await Promise.all(many(shares, 32, 'a', 'question'))
      for (const permit of mine) work(permit, 0.3)
      finish(theirs, 100)
      // Each request was in progress for 100 ms, but the thread did not work for it in that time.
      for (const permit of mine) permit.release()
      await admitted(many(shares, 32, 'a', 'question'))
      expect(await isIn(shares.large.enter('b'))).toBe(false)
    })

    test('do not delay an organization that uses little, among any number of others', async () => {
      const { shares, finish, visit } = busyShares()
      for (let n = 0; n < 100; n += 1) await visit(`idle ${n}`)
      const [mine, theirs] = [await shares.large.enter('a'), await shares.large.enter('b')]
      finish(theirs, 400)
      finish(mine, 100)
      expect(await isIn(shares.large.enter('a'))).toBe(true)
      expect(await isIn(shares.large.enter('b'))).toBe(false)
    })

    test('count the work that follows at once, but not the waiting of a request', async () => {
      const { shares, pass, work, visit } = busyShares()
      await visit('b')
      const permit = await shares.large.enter('a')
      work(permit, 10)
      await new Promise(setImmediate)
      await pass(1_000)
      permit.release()
      // The request waits 640 ms: 8 × 8 × the 10 ms that were counted.
      await entersAfter(shares.large.enter('a'), 640, pass)
    })

    test('forget past use', async () => {
      const { shares, pass, finish } = busyShares()
      for (const permit of await Promise.all(many(shares, 3, 'a', 'small'))) finish(permit, 100)
      await pass(9_000)
      const [mine, theirs] = [await shares.large.enter('a'), await shares.small.enter('b')]
      finish(theirs, 100)
      finish(mine, 100)
      expect(await isIn(shares.large.enter('a'))).toBe(true)
    })

    test('space the refusals of one organization', async () => {
      const { shares, pass, visit } = busyShares()
      await visit('b')
      ;(await shares.refusal.enter('a')).release()
      await entersAfter(shares.refusal.enter('a'), 50, pass)
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
  const load = createThreadLoad()
  expect(load.isBusy()).toBe(false)
  const end = performance.now() + 150
  while (performance.now() < end);
  expect(load.isBusy()).toBe(true)
  expect(load.strain()).toBeGreaterThan(1)
})

describe('uploads', () => {
  test.each([
    ['read two files at once', 'parser', 1],
    ['reserve half of the memory', 'upload', 4 * 25 * 1024 ** 2],
  ] as const)(
    'of one organization %s, and another one gets its own half at once',
    async (_, kind, amount) => {
      const share = createShares()[kind]
      const held = await Promise.all([1, 2].map(() => share.enter('a', { amount })))
      const third = share.enter('a', { amount })
      await Promise.all([1, 2].map(() => share.enter('b', { amount })))
      expect(await isIn(third)).toBe(false)
      held[0]?.release()
      expect(await isIn(third)).toBe(true)
    },
  )

  test('that are given up wait no more, and leave no trace', async () => {
    const { parser } = createShares()
    const held = await Promise.all([1, 2].map(() => parser.enter('a')))
    const gone = new AbortController()
    const waiting = parser.hold('a', async () => 'read', { signal: gone.signal })
    gone.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'unavailable' })
    for (const each of held) each.release()
    expect(await parser.hold('a', async () => 'read')).toBe('read')
  })

  test('of files that cannot be read free their permit', async () => {
    const { parser } = createShares()
    for (let each = 0; each < 5; each += 1)
      await expect(parser.hold('a', () => Promise.reject(new Error('damaged')))).rejects.toThrow('damaged')
    expect(await parser.hold('a', async () => 'read')).toBe('read')
  })
})

/**
 * Acts, and the loads that they admit. `a1:30` is a load of 30 bytes of organization a, and `b1:1!` one that must be
 * alone. `a1~40` keeps 40 bytes of a load, `-a1` releases it, and `xb1` aborts it while it waits.
 */
test.each([
  ['an organization has at most half, even if no other asks', 'a1:30 a2:30 b1:50 = a1 b1; -a1 = a2'],
  ['what is kept counts for its organization', 'a1:50 a1~40 a2:20 b1:50 c1:50 = a1 b1 c1; -b1 -a1 = a2'],
  ['a load larger than the total runs alone', 'a1:10 b1:1000 c1:10 = a1; -a1 = b1; -b1 = c1'],
  [
    'a load that may have ended a worker runs alone, and organizations take turns',
    'a1:1 b1:1! c1:1 = a1; a1~1 = b1; a2:1 b1~0 = c1 a2',
  ],
  ['organizations take turns', 'd1:100 a1:20 a2:20 b1:70 = d1; -d1 = a1 b1; -b1 = a2'],
  ['an aborted load leaves the queue and delays nobody', 'a1:50 b1:90 c1:10 = a1; xb1 = c1'],
])('loads: %s', async (_, script) => {
  const share = new FairShare({ total: 100, most: 50 })
  const admitted: string[] = []
  const permits = new Map<string, Permit>()
  const aborts = new Map<string, AbortController>()
  const act = (step: string): void => {
    const [, name = '', sign, bytes] = /^[-x]?(\w\d)([:~])?(\d+)?/.exec(step) ?? []
    if (step.startsWith('-')) permits.get(name)?.release()
    else if (step.startsWith('x')) aborts.get(name)?.abort(new Error('cancelled'))
    else if (sign === '~') permits.get(name)?.keep(Number(bytes))
    else {
      const abort = new AbortController()
      aborts.set(name, abort)
      const asked = share.enter(name.charAt(0), {
        amount: Number(bytes),
        alone: step.endsWith('!'),
        signal: abort.signal,
      })
      void asked.then(
        (permit) => (admitted.push(name), permits.set(name, permit)),
        () => {},
      )
    }
  }
  for (const part of script.split('; ')) {
    const [steps = '', expected] = part.split(' = ')
    for (const step of steps.split(' ')) {
      act(step)
      await tick()
    }
    expect(admitted.splice(0).join(' ')).toBe(expected)
  }
})

test('what waits too long is given up, and leaves no trace', async () => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask'] })
  try {
    const late = new Error('late')
    const share = new FairShare({ most: 1, patience: { milliseconds: 100, late: () => late } })
    const held = await share.enter('a')
    const waiting = share.enter('a')
    jest.advanceTimersByTime(99)
    expect(await isIn(waiting)).toBe(false)
    jest.advanceTimersByTime(1)
    await expect(waiting).rejects.toBe(late)
    const admitted = share.enter('a')
    jest.advanceTimersByTime(50)
    held.release()
    const next = share.enter('a')
    // The patience of the call that is in progress has ended with its wait.
    jest.advanceTimersByTime(60)
    ;(await admitted).release()
    expect(await isIn(next)).toBe(true)
  } finally {
    jest.useRealTimers()
  }
})

test('a wait that was given up leaves no trace: the organization that remains is alone', async () => {
  let now = 0
  const thread = new ThreadUse(() => now)
  const share = new FairShare({ most: 1 }, thread)
  const mine = await share.enter('a')
  const gone = new AbortController()
  const waiting = share.enter('a', { signal: gone.signal })
  const theirs = await share.enter('b')
  gone.abort(new Error('gone'))
  await expect(waiting).rejects.toThrow('gone')
  mine.release()
  theirs.release()
  now = 20_000
  await share.enter('c')
  expect([thread.isContended(), share.waiting]).toEqual([false, 0])
})

test('a load that is aborted before it asks is refused', async () => {
  const signal = AbortSignal.abort(new Error('cancelled'))
  await expect(new FairShare({ total: 1, most: 1 }).enter('a', { signal })).rejects.toThrow('cancelled')
})

test('law: every load is admitted in the end, and never more than the total at the same time', async () => {
  const ask = fc.record({
    organization: fc.constantFrom('a', 'b', 'c'),
    bytes: fc.integer({ min: 1, max: 150 }),
    alone: fc.boolean(),
    left: fc.nat(20),
    aborts: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(ask, { maxLength: 20 }), async (asks) => {
      const share = new FairShare({ total: 100, most: 50 })
      let [loading, loads, isAlone] = [0, 0, false]
      const ends = asks.map(async ({ organization, bytes, alone, left, aborts }, index) => {
        const abort = new AbortController()
        const acquired = share.enter(organization, { amount: bytes, alone, signal: abort.signal })
        if (aborts && index % 2 === 1) abort.abort()
        const permit = await acquired.catch(() => null)
        if (permit === null) return
        loading += bytes
        loads += 1
        expect(isAlone).toBe(false)
        if (alone) isAlone = true
        if (alone || bytes > 100) expect(loads).toBe(1)
        else expect(loading).toBeLessThanOrEqual(100)
        await tick()
        loading -= bytes
        loads -= 1
        if (alone) isAlone = false
        permit.keep(left)
        await tick()
        permit.release()
      })
      await Promise.all(ends)
      const last = await share.enter('d', { amount: 1_000, alone: true })
      last.release()
    }),
    { numRuns: 100 },
  )
})
