import { expect, test } from '@jest/globals'
import { itemsOf } from '../../../../src/governance/runs/effects/items.ts'
import type { CallSpec } from '../../../../src/governance/runs/values/call-spec.ts'
import type { Json } from '../../../../src/policy/types.ts'
import { scope } from '../../../policy/template-scope.ts'

const items = (list: Json) =>
  itemsOf({ step: { for_each: '{{input.list}}' } } as CallSpec, { ...scope, inputs: { list } })

test('the items of a `for_each` are those of its list, and there are none without a list', () => {
  expect(items(['a', null, { b: 1 }])).toEqual(['a', null, { b: 1 }])
  expect(items([])).toEqual([])
  expect(items(null)).toEqual([])
  expect(items(Array(10_000).fill(1))).toHaveLength(10_000)
})

test.each<[Json, string]>([
  ['text', 'it resolved to text'],
  [5, 'it resolved to a number'],
  [false, 'it resolved to true or false'],
  [{ a: 1 }, 'it resolved to an object'],
  [Array(10_001).fill(1), 'resolved to 10,001 items, more than 10,000: split the list'],
])('a value that is no list of at most 10,000 items is refused: %#', (value, message) => {
  expect(() => items(value)).toThrow(message)
})
