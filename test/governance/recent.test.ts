import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { heapBytes, Recent } from '../../src/governance/recent.ts'

const mebibyte = 1024 * 1024

test('what is kept stays within its bytes, whatever is put in and in whatever order', () => {
  const moves = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), fc.nat(3_000)))
  fc.assert(
    fc.property(moves, (puts) => {
      const recent = new Recent<number>(10_000)
      const weights = new Map<string, number>()
      for (const [key, bytes] of puts) {
        recent.set(key, bytes, bytes)
        weights.set(key, bytes)
        const kept = [...weights].filter(([each]) => recent.get(each) !== undefined)
        for (const [each, weight] of kept) expect(recent.get(each)).toBe(weight)
        expect(recent.size).toBe(kept.length)
        expect(kept.reduce((sum, [, weight]) => sum + weight, 0)).toBeLessThanOrEqual(10_000)
      }
    }),
  )
})

test('values of no size are as few as their keys allow', () => {
  const recent = new Recent<null>(mebibyte)
  for (let index = 0; index < 100_000; index += 1) recent.set(`run_${index}/step`, null, 0)
  expect(recent.size).toBeGreaterThan(1_000)
  expect(recent.size).toBeLessThan(3_000)
})

test('the one used longest ago goes first, and one that would fill a quarter never comes', () => {
  const recent = new Recent<string>(5_000)
  for (const key of ['a', 'b', 'c', 'd']) recent.set(key, key, 688)
  expect(recent.get('a')).toBe('a')
  recent.set('e', 'e', 688)
  expect(['a', 'b', 'c', 'd', 'e'].filter((key) => recent.get(key) !== undefined)).toEqual(['a', 'c', 'd', 'e']) // prettier-ignore
  recent.set('a', 'large', 1_000)
  expect(recent.get('a')).toBeUndefined()
  recent.delete('c')
  expect(recent.size).toBe(2)
})

test('an estimate holds against the heap itself, in a process of its own', async () => {
  const file = fileURLToPath(new URL('fixtures/heap-estimates.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', file])
  const measured = Object.entries(JSON.parse(stdout) as Record<string, { real: number; estimate: number }>)
  expect(measured).toHaveLength(5)
  for (const [what, { real, estimate }] of measured) {
    expect([what, estimate > real / 2, estimate < real * 4]).toEqual([what, true, true])
    expect(real).toBeGreaterThan(100_000)
  }
})

test('an output nested deeper than the stack is weighed too', () => {
  const depth = 200_000
  expect(heapBytes(JSON.parse('['.repeat(depth) + ']'.repeat(depth)))).toBeGreaterThan(depth * 32)
})
