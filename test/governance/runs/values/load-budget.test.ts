import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { LoadBudget, type Permit } from '../../../../src/governance/runs/values/load-budget.ts'

const never = new AbortController().signal
const tick = () => new Promise((resolve) => setImmediate(resolve))

/** Starts loads by name, and records the names in the order in which the loads were admitted. */
function loader(total: number) {
  const budget = new LoadBudget(total)
  const admitted: string[] = []
  const permits = new Map<string, Permit>()
  return {
    admitted,
    async load(
      organization: string,
      name: string,
      bytes: number,
      over: { alone?: boolean; signal?: AbortSignal } = {},
    ) {
      const { alone = false, signal = never } = over
      void budget.acquire(organization, bytes, { alone, signal }).then(
        (permit) => {
          admitted.push(name)
          permits.set(name, permit)
        },
        () => {},
      )
      await tick()
    },
    async keep(name: string, bytes: number) {
      permits.get(name)?.keep(bytes)
      await tick()
    },
    async release(name: string) {
      permits.get(name)?.release()
      await tick()
    },
  }
}

test('an organization has at most half, even if no other asks', async () => {
  const { load, release, admitted } = loader(100)
  await load('a', 'a1', 30)
  await load('a', 'a2', 30)
  await load('b', 'b1', 50)
  expect(admitted).toEqual(['a1', 'b1'])
  await release('a1')
  expect(admitted).toEqual(['a1', 'b1', 'a2'])
})

test('remains of a load count for its organization only, until they are released', async () => {
  const { load, keep, release, admitted } = loader(100)
  await load('a', 'a1', 50)
  await keep('a1', 40)
  await load('a', 'a2', 20)
  await load('b', 'b1', 50)
  await load('c', 'c1', 50)
  expect(admitted).toEqual(['a1', 'b1', 'c1'])
  await release('b1')
  await release('a1')
  expect(admitted).toEqual(['a1', 'b1', 'c1', 'a2'])
})

test('a load larger than the total runs alone', async () => {
  const { load, release, admitted } = loader(100)
  await load('a', 'a1', 10)
  await load('b', 'huge', 1_000)
  await load('c', 'c1', 10)
  expect(admitted).toEqual(['a1'])
  await release('a1')
  expect(admitted).toEqual(['a1', 'huge'])
  await release('huge')
  expect(admitted).toEqual(['a1', 'huge', 'c1'])
})

test('a load that may have ended a worker runs alone, and organizations take turns', async () => {
  const { load, keep, admitted } = loader(100)
  await load('a', 'a1', 1)
  await load('b', 'suspect', 1, { alone: true })
  await load('c', 'c1', 1)
  expect(admitted).toEqual(['a1'])
  await keep('a1', 1)
  expect(admitted).toEqual(['a1', 'suspect'])
  await load('a', 'a2', 1)
  await keep('suspect', 0)
  expect(admitted).toEqual(['a1', 'suspect', 'c1', 'a2'])
})

test('an aborted load leaves the queue and delays nobody', async () => {
  const { load, admitted } = loader(100)
  const gone = new AbortController()
  await load('a', 'a1', 50)
  await load('b', 'gone', 90, { signal: gone.signal })
  await load('c', 'c1', 10)
  expect(admitted).toEqual(['a1'])
  gone.abort(new Error('cancelled'))
  await tick()
  expect(admitted).toEqual(['a1', 'c1'])
  await expect(
    new LoadBudget(1).acquire('a', 1, { alone: false, signal: AbortSignal.abort(new Error('cancelled')) }),
  ).rejects.toThrow('cancelled')
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
      const budget = new LoadBudget(100)
      let [loading, loads, isAlone] = [0, 0, false]
      const ends = asks.map(async ({ organization, bytes, alone, left, aborts }, index) => {
        const abort = new AbortController()
        const acquired = budget.acquire(organization, bytes, { alone, signal: abort.signal })
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
      const last = await budget.acquire('d', 1_000, { alone: true, signal: never })
      last.release()
    }),
    { numRuns: 100 },
  )
})
