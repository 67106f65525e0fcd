import { expect, test } from '@jest/globals'
import { createThreadLoad, strainAfter } from '../../../src/governance/limits/thread-use.ts'

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
  const load = createThreadLoad(0.35)
  expect(load.isBusy()).toBe(false)
  const end = performance.now() + 150
  while (performance.now() < end);
  expect(load.isBusy()).toBe(true)
  expect(load.strain()).toBeGreaterThan(1)
})
