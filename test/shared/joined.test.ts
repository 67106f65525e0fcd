import { expect, test } from '@jest/globals'
import { createJoined } from '../../src/shared/joined.ts'

test('calls with one key share a read until it begins', async () => {
  const joined = createJoined()
  const mayBegin = Promise.withResolvers<void>()
  let reads = 0
  const read = async (begins: () => void): Promise<number> => {
    await mayBegin.promise
    begins()
    reads += 1
    return reads
  }
  const first = [joined.join('a', read), joined.join('a', read)]
  const other = joined.join('b', async () => 'other')
  mayBegin.resolve()
  expect(await Promise.all([...first, other])).toEqual([1, 1, 'other'])
  expect(await joined.join('a', read)).toBe(2)
})

test('a call during a read gets a read of its own, so that it misses no change', async () => {
  const joined = createJoined()
  const [isReading, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const early = joined.join('a', async (begins) => {
    begins()
    isReading.resolve()
    await mayEnd.promise
    return 'early'
  })
  await isReading.promise
  const late = joined.join('a', async () => 'late')
  mayEnd.resolve()
  expect(await Promise.all([early, late])).toEqual(['early', 'late'])
})

test('all callers get the error of their read, and the next call reads again', async () => {
  const joined = createJoined()
  const fail = async (): Promise<never> => {
    throw new Error('away')
  }
  const both = [joined.join('a', fail), joined.join('a', fail)]
  for (const each of both) await expect(each).rejects.toThrow('away')
  expect(await joined.join('a', async () => 1)).toBe(1)
})
