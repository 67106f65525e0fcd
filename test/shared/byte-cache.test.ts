import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { counted, heapBytes, byteCache } from '../../src/shared/byte-cache.ts'

const mebibyte = 1024 * 1024

test('the kept values stay within the limit of bytes, whatever is added and in whatever order', () => {
  const moves = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), fc.nat(3_000)))
  fc.assert(
    fc.property(moves, (puts) => {
      const recent = byteCache<number>(10_000)
      const weights = new Map<string, number>()
      for (const [key, bytes] of puts) {
        recent.set(key, bytes, counted(bytes))
        weights.set(key, bytes)
        const kept = [...weights].filter(([each]) => recent.get(each) !== undefined)
        for (const [each, weight] of kept) expect(recent.get(each)).toBe(weight)
        expect(recent.size).toBe(kept.length)
        expect(kept.reduce((sum, [, weight]) => sum + weight, 0)).toBeLessThanOrEqual(10_000)
      }
    }),
  )
})

test('the number of values without size is limited by their keys', () => {
  const recent = byteCache<true>(mebibyte)
  for (let index = 0; index < 100_000; index += 1) recent.set(`run_${index}/step`, true, counted(0))
  expect(recent.size).toBeGreaterThan(1_000)
  expect(recent.size).toBeLessThan(3_000)
})

test('drops the least recently used entry first, and never keeps an entry above a quarter of the limit', () => {
  const recent = byteCache<string>(5_000)
  for (const key of ['a', 'b', 'c', 'd']) recent.set(key, key, counted(688))
  expect(recent.get('a')).toBe('a')
  recent.set('e', 'e', counted(688))
  expect(['a', 'b', 'c', 'd', 'e'].filter((key) => recent.get(key) !== undefined)).toEqual(['a', 'c', 'd', 'e']) // prettier-ignore
  recent.set('a', 'large', counted(1_000))
  expect(recent.get('a')).toBeUndefined()
  recent.delete('c')
  expect(recent.size).toBe(2)
})

test('an estimate is not below the real heap, measured in a separate process', async () => {
  const file = fileURLToPath(new URL('heap-estimates.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', file])
  const measured = Object.entries(JSON.parse(stdout) as Record<string, { real: number; estimate: number }>)
  expect(measured).toHaveLength(5)
  for (const [what, { real, estimate }] of measured) {
    expect([what, estimate > real / 2, estimate < real * 4]).toEqual([what, true, true])
    expect(real).toBeGreaterThan(100_000)
  }
})

test('an output nested deeper than the stack is measured too', () => {
  const depth = 200_000
  expect(heapBytes(JSON.parse('['.repeat(depth) + ']'.repeat(depth)))).toBeGreaterThan(depth * 32)
})
