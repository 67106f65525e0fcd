import { expect, test } from '@jest/globals'
import { Budget } from '../../src/policy/budget.ts'
import { Hole } from '../../src/policy/hole.ts'

test('a look for many pieces in a text pays by their number', () => {
  const hole = new Hole('a', { after: [...Array<string>(900).fill('a'), 'q', ''] })
  const budget = new Budget(100)
  expect(hole.mayBecome('a'.repeat(1_990), budget)).toBe(false)
  expect(() => hole.mayBecome('a'.repeat(1_990), budget)).toThrow('too large')
  // Another first piece costs nothing.
  expect(hole.mayBecome('b', budget)).toBe(false)
})
