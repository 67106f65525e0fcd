import { expect, test } from '@jest/globals'
import type { Json } from '../../src/policy/types.ts'
import { type WhenOperator, holds } from '../../src/policy/when.ts'

test.each<[Json, WhenOperator, Json | undefined, boolean]>([
  ['x', 'equals', 'x', true],
  ['x', 'not_equals', 'x', false],
  [null, 'equals', null, true],
  [null, 'equals', 'x', false],
  [null, 'not_equals', 'x', true],
  [['bug', 'p1'], 'equals', 'bug', true],
  [['bug', 'p1'], 'equals', ['bug', 'p1'], true],
  [{ a: 1, b: [2] }, 'equals', { b: [2], a: 1 }, true],
  [{ a: 1 }, 'equals', { a: 1, b: null }, false],
  [[], 'equals', [], true],
  [1, 'equals', '1', false],
  ['x', 'in', ['x', 'y'], true],
  [null, 'in', ['x'], false],
  ['x', 'not_in', ['x', 'y'], false],
  [['x', 'z'], 'not_in', ['x'], false],
  [null, 'not_in', ['x'], true],
  ['hello', 'contains', 'ell', true],
  [['hello'], 'contains', 'ell', false],
  ['hello', 'startswith', 'he', true],
  ['a@acme.com', 'domain_in', ['acme.com'], true],
  ['a@acme.com, b@evil.net', 'domain_not_in', ['acme.com'], false],
  ['b@evil.net', 'domain_not_in', ['acme.com'], true],
  [{ x: 1 }, 'exists', true, true],
  [null, 'exists', true, false],
  [null, 'exists', false, true],
  ['x', 'exists', undefined, true],
])('%j %s %j: %s', (value, operator, compare, expected) => {
  expect(holds(operator, value, compare)).toBe(expected)
})

test('a comparison of unsuitable types is an error, not false', () => {
  expect(() => holds('domain_in', 'a@acme.com', ['com'])).toThrow('public suffix')
})
