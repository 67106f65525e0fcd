import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Caller } from '../../../src/governance/access/identity.ts'
import { DomainError } from '../../../src/governance/errors.ts'
import { createShares } from '../../../src/governance/limits/request-shares.ts'
import { inSlices, mostWork } from '../../../src/governance/rules/long-work.ts'

/** The time of the thread in this test. Each value of the generator takes one millisecond. */
let now = 0
beforeEach(() => {
  jest.spyOn(performance, 'now').mockImplementation(() => now)
})
afterEach(() => {
  jest.restoreAllMocks()
})

function* values(count: number): Generator<number> {
  for (let value = 1; value <= count; value += 1) {
    now += 1
    yield value
  }
}

/** Follows the generator. Returns the result, and the values after which the thread worked for others. */
async function followed(count: number, see: (value: number) => 'enough' | null, signal?: AbortSignal) {
  let last = 0
  let isDone = false
  const pauses = new Set<number>()
  const look = (): void => {
    pauses.add(last)
    if (!isDone) setImmediate(look)
  }
  look()
  const request = {
    chargedTo: 'org_a',
    callerNow: async () => ({ role: 'member' }) as const,
    signal: signal ?? new AbortController().signal,
  }
  const work = inSlices({ shares: createShares() }, request, (slices) =>
    slices.follow(values(count), (value) => {
      last = value
      return see(value)
    }),
  )
  try {
    return { result: await work, last, pauses: [...pauses] }
  } finally {
    isDone = true
  }
}

test('after each 5 milliseconds of work, the thread works for others', async () => {
  const { result, last, pauses } = await followed(23, () => null)
  expect([result, last]).toEqual([null, 23])
  expect(pauses).toEqual([0, 5, 10, 15, 20])
})

test('the work ends with the first result', async () => {
  const { result, last } = await followed(23, (value) => (value === 7 ? 'enough' : null))
  expect([result, last]).toEqual(['enough', 7])
})

test('the work ends when its time is over', async () => {
  const { result, last } = await followed(mostWork * 2, () => null)
  expect([result, last]).toEqual(['time', mostWork])
})

test('the work ends at the next pause when its client has gone', async () => {
  const client = new AbortController()
  const see = (value: number) => {
    if (value === 7) client.abort()
    return null
  }
  await expect(followed(23, see, client.signal)).rejects.toMatchObject({ code: 'unavailable' })
})

describe('the rights of the caller', () => {
  const lost = new DomainError('unauthenticated', 'the key has ended')
  /** Does work for which the check of rights gives these results, one after the other. */
  const work = (...results: (Pick<Caller, 'role'> | DomainError)[]) => {
    const callerNow = async () => {
      const result = results.shift()
      if (result === undefined || result instanceof DomainError) throw result
      return result
    }
    const request = { chargedTo: 'org_a', callerNow, signal: new AbortController().signal }
    return inSlices({ shares: createShares() }, request, async ({ role }) => `done as ${role}`)
  }
  const [admin, owner] = [{ role: 'admin' }, { role: 'owner' }] as const

  test('are checked before the work, and again after it', async () => {
    await expect(work(lost)).rejects.toBe(lost)
    await expect(work(admin, lost)).rejects.toBe(lost)
  })

  test('must not become fewer during the work', async () => {
    await expect(work(owner, admin)).rejects.toMatchObject({ code: 'unavailable' })
    expect(await work(admin, owner)).toBe('done as admin')
  })
})
