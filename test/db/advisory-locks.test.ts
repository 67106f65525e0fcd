import { expect, test } from '@jest/globals'
import { advisoryLocks } from '../../src/db/advisory-locks.ts'

test('each kind of work has its own number', () => {
  const numbers = Object.values(advisoryLocks)
  expect(new Set(numbers).size).toBe(numbers.length)
})
