import { describe, expect, test } from '@jest/globals'
import type { Json } from '../../src/policy/types.ts'
import { ask } from './rule-semantics.ts'

/** Decides a call with one rule for each of these paths. */
const search = (paths: readonly string[], x: Json) =>
  ask(
    paths.map((param) => ({ verdict: 'deny', params: [{ param, operator: 'exists', value: true }] })),
    { params: { x } },
  )
const times = (count: number, pathOf: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => pathOf(index))
const tooLarge = { verdict: 'deny', reason: 'call too large to evaluate' }

describe('a search pays for what it looks at', () => {
  test.each<[string, string[], Json]>([
    ['one path of 100 segments', [`x.${'a.'.repeat(98)}a`], Array.from({ length: 9_990 }, () => ({}))],
    ['keys with dots', [`x.${'a.'.repeat(98)}a`], Array.from({ length: 9_990 }, () => ({ '.': 0 }))],
    ['many paths', times(100, (index) => `x.a.a.p${index}`), Array.from({ length: 9_990 }, () => ({}))],
    ['empty lists', times(100, (index) => `x.p${index}`), Array.from({ length: 90_000 }, () => [])],
    [
      'lists of null',
      ['x', ...times(9, (index) => `x.${index}`)],
      Array.from({ length: 9 }, () => Array<null>(99_999).fill(null)),
    ],
  ])('%s', (_, paths, x) => {
    expect(search(paths, x)).toMatchObject(tooLarge)
  })

  test('a list of 500 people and 200 rules are within the budget', () => {
    const people = Array.from({ length: 500 }, (_, index) => ({ name: 'Ann', email: `${index}@acme.com` }))
    const decided = search(
      times(200, (index) => `x.p${index}`),
      people,
    )
    expect(decided.verdict).toBe('allow')
  })
})

test('keys with dots are found wherever they end', () => {
  expect(search(['x.a.b.c'], { 'a.b': { c: 1 } }).verdict).toBe('deny')
  expect(search(['x.a.b.c'], { a: { 'b.c': 1 } }).verdict).toBe('deny')
  expect(search(['x.a.b.c'], { 'a.b.c': 1 }).verdict).toBe('deny')
  expect(search(['x.a.b.c'], { 'a.b': 1, 'a.bc': 1, c: 1 }).verdict).toBe('allow')
})
