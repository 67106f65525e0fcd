import { expect, test } from '@jest/globals'
import { judge, type Sample } from '../../bench/support/soak-verdict.ts'

/**
 * Samples of all quantities at each hundredth of a soak. `change` replaces quantities by functions of the time, which
 * goes from 0 to 1.
 */
function soak(change: Readonly<Record<string, (at: number) => number>> = {}): Sample[] {
  const flat: Sample['values'] = {
    'api heap MiB': 45,
    'worker heap MiB': 47,
    'workflows heap MiB': 24,
    'api outside heaps MiB': 150,
    'worker outside heaps MiB': 210,
    'api MiB': 300,
    'worker MiB': 500,
    connections: 20,
    outbox: 1,
    heartbeats: 1,
    'runs past retention': 0,
    'events past retention': 0,
    runs: 100,
  }
  return Array.from({ length: 100 }, (_, index) => {
    const at = index / 100
    const moved = Object.entries(change).map(([name, move]) => [name, move(at)] as const)
    return { at, values: { ...flat, ...Object.fromEntries(moved) } }
  })
}

const missed = (samples: readonly Sample[]): string[] =>
  judge(samples).flatMap(({ name, holds }) => (holds ? [] : [name]))

test('flat quantities pass, and so do quantities that warm up in the first quarter or are pure counters', () => {
  const warm = (at: number) => (at < 0.24 ? 20 : 45)
  expect(missed(soak({ 'api heap MiB': warm, runs: (at) => at * 6_000 }))).toEqual([])
})

test.each<[string, (at: number) => number]>([
  // 3,000 runs from the second quarter to the last, each leaving 2 KiB
  ['api heap MiB', (at) => 45 + (at * 6_000 * 2) / 1_024],
  ['worker heap MiB', (at) => 47 + (at * 6_000 * 2) / 1_024],
  ['workflows heap MiB', (at) => 24 + (at * 6_000 * 2) / 1_024],
  ['api outside heaps MiB', (at) => 150 + at * 60],
  ['worker outside heaps MiB', (at) => 210 + at * 80],
  ['api MiB', (at) => 250 + at * 250],
  ['worker MiB', (at) => 450 + at * 400],
  ['connections', (at) => 10 + Math.floor(at * 20)],
  ['outbox', (at) => at * 100],
  ['heartbeats', (at) => (at < 0.9 ? 1 : 2)],
  ['runs past retention', (at) => (at < 0.95 ? 0 : 1)],
  ['events past retention', (at) => (at < 0.95 ? 0 : 1)],
])('only %s fails if it grows', (name, grow) => {
  expect(missed(soak({ [name]: grow }))).toEqual([name])
})

test('a heap is judged by its minimum: work in progress is not a leak', () => {
  const busy = (at: number) => (at === 0.8 ? 45 : at > 0.75 ? 60 : 45)
  expect(missed(soak({ 'api heap MiB': busy }))).toEqual([])
})

test('a missing measurement fails', () => {
  const blind = soak().map(({ at, values }) => {
    const { 'api heap MiB': _, ...rest } = values
    return { at, values: at < 0.5 ? values : rest }
  })
  expect(missed(blind)).toEqual(['api heap MiB'])
  expect(missed([])).toContain('connections')
})
