import { expect, test } from '@jest/globals'
import { getTool } from '../../src/catalog/index.ts'
import { checkDefinition } from '../../src/contract/definition-check.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'
import type { Json } from '../../src/policy/types.ts'

const template = '{{s0.output}}'
const s0 = { id: 's0', tool: 'memory_get', params: { key: 'k' } }

const nested = (value: Json, name: string, levels: number): Json =>
  levels === 0 ? value : { [name]: nested(value, name, levels - 1) }

const check = (definition: object) => checkDefinition(workflowDefinition.parse(definition), { get: getTool })
const checkValue = (value: Json) =>
  check({ steps: [s0, { id: 's1', tool: 'memory_set', params: { key: 'k', value } }] })

test('a value at the end of many long names is refused, with a short path', () => {
  // The paths of 4,000 such templates once kept the API busy for half a minute.
  const issues = checkValue(nested(Array<Json>(4_000).fill(template), 'a.'.repeat(499) + 'a', 58))
  expect(issues).toEqual([
    {
      path: expect.stringMatching(/^steps\.1\.params\.value\.a\./),
      message: 'the names on the way to this value have more than 2,000 characters together: shorten them',
    },
  ])
  expect(issues[0]?.path.length).toBeLessThan(1_000)
})

test('at most ten such values are named', () => {
  const names = Array.from({ length: 30 }, (_, index) => `${'a'.repeat(990)}${index}`)
  const value = nested(Object.fromEntries(names.map((name) => [name, template])), 'b'.repeat(999), 1)
  expect(checkValue({ value, other: nested(value, 'c', 1) })).toHaveLength(10)
})

test('the limit also covers the result', () => {
  const result = { all: nested(template, 'a'.repeat(999), 3) }
  expect(check({ steps: [s0], result })).toMatchObject([{ path: expect.stringMatching(/^result\.all\.a/) }])
})

test('names of up to 2,000 characters together are accepted', () => {
  expect(checkValue(nested([template], 'a'.repeat(980), 2))).toEqual([])
  expect(checkValue(nested([template], 'level', 50))).toEqual([])
})
