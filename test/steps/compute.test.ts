import { describe, expect, test } from '@jest/globals'
import type { Json } from '../../src/policy/types.ts'
import { holds } from '../../src/policy/when.ts'
import { issuesOfSteps } from './issues.ts'

const values = {
  id: 'values',
  compute: { rows: '{{ parse_csv(input.csv) }}', one: 1, nested: { day: '{{today}}' } },
}
const uses = (text: string) => ({ id: 'use', tool: 'memory_get', params: { key: text } })

test('a step `compute` is saved, and its fields are known', () => {
  expect(
    issuesOfSteps([values, uses('{{ values.output.nested.day + values.output.rows[0].name }}')]),
  ).toEqual([])
  expect(issuesOfSteps([values, uses('{{values.output.rows}}')])).toEqual([
    "steps.1.params.key: step `use`: parameter `key` must be text, and `{{values.output.rows}}` is a list: write `{{''}}{{values.output.rows}}` to make it text",
  ])
  expect(issuesOfSteps([values, uses('{{values.output.nested.night}}')])).toEqual([
    'steps.1.params.key: step `use`: parameter `key`: `{{values.output.nested.night}}`: `nested` has no `night` (it has `day`)',
  ])
})

test('values that double with each step are saved quickly', () => {
  const steps = Array.from({ length: 60 }, (_, index) => ({
    id: `s${index}`,
    compute:
      index === 0
        ? { a: { b: 1 } }
        : { a: `{{s${index - 1}.output}}`, list: [`{{s${index - 1}}}`, [`{{s${index - 1}}}`]] },
  }))
  expect(issuesOfSteps(steps.toReversed())).toEqual([])
})

describe('a step is refused', () => {
  test.each([
    [{ compute: {} }, /^steps\.0\.compute: step `values`: `compute` needs at least one value/],
    [{ compute: { a: '{{ 1 + }}' } }, /^steps\.0\.compute\.a: step `values`: `\{\{ 1 \+ \}\}` is neither/],
    [{ compute: { a: '{{values.output.a}}' } }, /refers to the step itself/],
    [{ compute: { a: 1 }, params: {} }, /^steps\.0\.params: only a step with `tool` has `params`/],
    [{ compute: { a: 1 }, tool: 'memory_get' }, /has `tool` or `compute`, not both/],
  ])('%j', (step, issue) => {
    expect(issuesOfSteps([{ id: 'values', ...step }])[0]).toMatch(issue)
  })
})

test('the fields of a model’s answer are known', () => {
  const output = {
    type: 'object',
    properties: { amount: { type: 'number' }, tags: { type: 'array', items: { type: 'string' } } },
  }
  const model = (params: object) => ({
    id: 'model',
    tool: 'llm_generate',
    params: { prompt: 'p', ...params },
  })
  const use = (text: string) => ({ id: 'use', compute: { a: text } })
  expect(
    issuesOfSteps([model({ output }), use('{{ model.output.data.amount + size(model.output.data.tags) }}')]),
  ).toEqual([])
  expect(issuesOfSteps([model({ output }), use('{{model.output.data.sum}}')])[0]).toContain(
    '`data` has no `sum` (it has `amount`, `tags`)',
  )
  expect(issuesOfSteps([model({}), use('{{model.output.data.sum}}')])[0]).toContain(
    'the output of step `model` has no `data`',
  )
})

test('`contains` in a `when` takes a value or a list, as in a rule', () => {
  const when = (compare: Json) => ({
    id: 's',
    compute: { a: 1 },
    when: { value: '{{input.day}}', operator: 'contains', compare },
  })
  expect([issuesOfSteps([when('x')]), issuesOfSteps([when(['x', 'y'])])]).toEqual([[], []])
  expect(issuesOfSteps([when([])])[0]).toContain('`contains` compares with a value or a list of values')
  expect([holds('contains', 'hello', ['x', 'ell']), holds('contains', 'hello', ['x', 'y'])]).toEqual([
    true,
    false,
  ])
})
