import { expect, test } from '@jest/globals'
import { activeOf, bytesOf, compileRows, type SavedRow } from '../../../src/governance/audit/compiled-rows.ts'

const compiledIds: string[] = []
const compile = (id: string, body: object): string | null => {
  compiledIds.push(id)
  return 'inactive' in body ? null : `${id} ${JSON.stringify(body)}`
}
const row = (id: string, body: object): SavedRow => ({ id, text: JSON.stringify(body) })

test('only new and changed rules are compiled; order, deletion and inactive rules are as saved', () => {
  const first = compileRows([row('a', { n: 1 }), row('b', { n: 2 }), row('c', { inactive: 1 })], undefined, compile) // prettier-ignore
  expect(activeOf(first)).toEqual(['a {"n":1}', 'b {"n":2}'])
  expect(compiledIds.splice(0)).toEqual(['a', 'b', 'c'])

  const second = compileRows([row('c', { inactive: 1 }), row('b', { n: 3 }), row('a', { n: 1 }), row('d', { n: 4 })], first, compile) // prettier-ignore
  expect(activeOf(second)).toEqual(['b {"n":3}', 'a {"n":1}', 'd {"n":4}'])
  expect(compiledIds.splice(0)).toEqual(['b', 'd'])

  const third = compileRows([row('a', { inactive: 1 })], second, compile)
  expect(activeOf(third)).toEqual([])
  expect(bytesOf(third)).toBeLessThan(bytesOf(second))
  expect(compiledIds).toEqual(['a'])
})

test('a rule takes over nothing from another rule with the same text', () => {
  const first = compileRows([row('a', { n: 1 })], undefined, compile)
  expect(activeOf(compileRows([row('b', { n: 1 })], first, compile))).toEqual(['b {"n":1}'])
})
