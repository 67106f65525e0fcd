import { expect, test } from '@jest/globals'
import { Budget } from '../../src/policy/budget.ts'
import type { Json } from '../../src/policy/types.ts'
import { MissingPath } from '../../src/policy/templates.ts'
import { type WhenOperator, holds, isWanted } from '../../src/policy/when.ts'
import { cpuMilliseconds } from './cpu-time.ts'
import { scope } from './template-scope.ts'

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

test.each<[Json, boolean]>([
  ['{{read.output.gone}}', false],
  ['{{read.output.inner.deeper}}', false],
  ['{{read.output.rows[9].name}}', false],
  ['{{read.output.rows[1].n}}', false],
  ['{{input.object.deep[1]}}', false],
  ['{{input.uploaded_files[1].text}}', false],
  ['{{input.uploaded_files[0].rows}}', false],
  ['{{item.email}}', false],
  ['{{item.id}}', true],
  ['{{read.output.rows[0].n}}', true],
])('`exists` asks whether %s leads to a value: %s', (value, expected) => {
  const within = { ...scope, item: { id: 5 }, index: 2 }
  expect(isWanted({ value, operator: 'exists' }, within)).toBe(expected)
  expect(isWanted({ value, operator: 'exists', compare: false }, within)).toBe(!expected)
})

test('a path that leads to nothing is an error for every other operator, and in `compare`', () => {
  const value = '{{read.output.gone}}'
  for (const operator of ['equals', 'not_equals', 'not_in'] as const)
    expect(() => isWanted({ value, operator, compare: ['x'] }, scope)).toThrow(MissingPath)
  expect(() => isWanted({ value: 1, operator: 'exists', compare: value }, scope)).toThrow(MissingPath)
})

test('a comparison of unsuitable types is an error, not false', () => {
  expect(() => holds('domain_in', 'a@acme.com', ['com'])).toThrow('public suffix')
})

const longLink = `https://docs.google.com/document/${'a/'.repeat(2_000)}`

test.each<[string, Json, Json]>([
  ['a text', 'x', longLink],
  ['objects', { a: 'x' }, { a: longLink }],
])('a list is compared with %s, which is read once', (_, element, compare) => {
  const list = Array<Json>(10_000).fill(element)
  // Reading the link again for each element once took 2 seconds.
  expect(cpuMilliseconds(() => expect(holds('equals', list, compare)).toBe(false))).toBeLessThan(500)
  expect(holds('equals', [...list, compare], compare)).toBe(true)
})

test('links to one file are equal, also inside lists of objects', () => {
  const link = 'https://docs.google.com/document/d/1AbcDefGhi/edit'
  expect(holds('equals', [{ a: ['x'] }, { a: ['1AbcDefGhi'] }], { a: [link] })).toBe(true)
  expect(holds('equals', [{ a: [link] }], { a: ['1AbcDefGhi'] })).toBe(true)
  expect(holds('equals', [{ a: [link] }], { a: ['other'] })).toBe(false)
})

test('a long list in `compare` spends budget once, and not for each item', () => {
  const compare = Array.from({ length: 4_000 }, (_, index) => `v${index}`)
  const budget = new Budget(1_500)
  for (let item = 0; item < 100; item += 1) expect(holds('in', `v${item}`, compare, budget)).toBe(true)
  expect(() => holds('in', 'v1', [...compare], budget)).toThrow('too large')
  // The operators do not share what was read.
  expect(holds('in', 'a@acme.com', ['acme.com'], new Budget())).toBe(false)
  const both = new Budget()
  const domains = ['acme.com']
  expect(holds('in', 'a@acme.com', domains, both)).toBe(false)
  expect(holds('domain_in', 'a@acme.com', domains, both)).toBe(true)
})

test('domains in `compare` spend more', () => {
  const domains = Array.from({ length: 300 }, (_, index) => `d${index}.com`)
  expect(() => holds('domain_in', 'a@acme.com', domains, new Budget(500))).toThrow('too large')
})
