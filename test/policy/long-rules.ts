import { jest } from '@jest/globals'
import { Budget } from '../../src/policy/budget.ts'

/** Conditions that are expensive to compare. Their values make many calls, and no call fits the last condition. */
export function longTexts(conditions: number): object[] {
  const short = Array.from({ length: 16 }, (_, index) => `${'a'.repeat(index + 5)}b`)
  return [
    ...Array.from({ length: conditions }, (_, at) => ({
      param: 'p',
      operator: 'contains',
      value: [...[0, 1, 2].map((index) => `${'a'.repeat(1_900)}x${at}.${index}`), ...short, 'x'],
    })),
    { param: 'p', operator: 'contains', value: 'Z' },
  ]
}

/** Runs the first steps of a search. Returns the comparisons of its decisions: all, and the most between two pauses. */
export function comparisonsBetween(
  search: Iterable<unknown>,
  mostSteps = Infinity,
): { all: number; most: number } {
  let [sincePause, most, all, steps] = [0, 0, 0, 0]
  const original = Budget.prototype.spend
  const spy = jest.spyOn(Budget.prototype, 'spend').mockImplementation(function (this: Budget, count) {
    sincePause += count
    all += count
    original.call(this, count)
  })
  try {
    for (const _ of search) {
      most = Math.max(most, sincePause)
      sincePause = 0
      steps += 1
      if (steps === mostSteps) break
    }
  } finally {
    spy.mockRestore()
  }
  return { all, most: Math.max(most, sincePause) }
}
