import { describe, expect, test } from '@jest/globals'
import { checkDefinition } from '../../src/contract/definition-check.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'
import type { Json } from '../../src/policy/types.ts'
import { cpuMilliseconds } from '../policy/cpu-time.ts'
import { catalog, inputs, check } from './forms-check.ts'

const param = (any: Json) => ({ params: { any } })

describe('a path in an output', () => {
  test.each([
    '{{a}}',
    '{{a.output.total}}',
    '{{a.output.next}}',
    '{{a.output.issues}}',
    '{{a.output.issues[3].labels[0]}}',
    '{{a.output.issues[0].more.of.any["kind"]}}',
    '{{a.output.either.id}}',
    '{{a.output.names.anybody}}',
    '{{a.output.loose.known.a}}',
    '{{a.output.loose.other.b}}',
    '{{input.object.x.y}}',
    '{{input.rows[0].x}}',
    '{{input.uploaded_files[0].name}}',
  ])('can exist: %s', (text) => {
    expect(check(param(text))).toEqual([])
    expect(check(param(['x', { y: `in text ${text}` }]))).toEqual([])
  })

  test.each([
    ['{{a.output.totl}}', 'the output of step `a` has no `totl` (it has `total`, `next`, `issues`'],
    ['{{a.output.total.x}}', '`total` is a number, which has no `x`'],
    ['{{a.output.next.x}}', '`next` is text, which has no `x`'],
    ['{{a.output.issues.title}}', '`issues` is a list, which has no `title`: name a place in it'],
    ['{{a.output.issues.length}}', '`issues` is a list, which has no `length`'],
    ['{{a.output.issues[0].titel}}', '`0` has no `titel` (it has `number`, `title`, `labels`, `more`)'],
    ['{{a.output.either.name}}', '`either` has no `name` (it has `id`)'],
    ['{{a.output.names.anybody.x}}', '`anybody` is true or false, which has no `x`'],
    ['{{a.output.loose.known.b}}', '`known` has no `b`'],
    ['{{a.output.constructor}}', 'has no `constructor`'],
    ['{{input.text.x}}', 'input `text` is text, which has no `x`'],
    ['{{input.count[0]}}', 'input `count` is a number, which has no `0`'],
    ['{{input.rows.x}}', 'input `rows` is a list, which has no `x`'],
  ])('cannot exist: %s', (text, message) => {
    const issue = `steps.1.params.any: step \`b\`: parameter \`any\`: \`${text}\`: `
    expect(check(param(text))).toEqual([expect.stringContaining(message)])
    expect(check(param(['x', { y: `in text ${text}` }]))).toEqual([expect.stringContaining(issue)])
    expect(check({ when: { value: text, operator: 'exists' } })).toEqual([expect.stringContaining(message)])
    const result = { steps: [{ id: 'a', tool: 'list' }], inputs, result: { r: [text] } }
    expect(checkDefinition(workflowDefinition.parse(result), catalog)).toEqual([
      { path: 'result.r', message: expect.stringContaining(message) },
    ])
  })

  test('of a step with `for_each` begins with a place in the list', () => {
    const each = { for_each: [1, 2] }
    expect(check(param('{{a.output[1].total}}'), each)).toEqual([])
    expect(check({ for_each: '{{a.output}}', ...param('{{item.total}}') }, each)).toEqual([])
    expect(check(param('{{a.output.total}}'), each)).toEqual([
      expect.stringContaining(
        'the output of step `a`, which has `for_each`, is a list, which has no `total`',
      ),
    ])
    expect(check({ for_each: '{{a.output}}', ...param('{{item.totl}}') }, each)).toEqual([
      expect.stringContaining('`item` has no `totl`'),
    ])
  })

  test.each<[Json, string, string | null]>([
    ['{{a.output.issues}}', '{{item.title}} {{index}}', null],
    ['{{a.output.issues}}', '{{item.name}}', '`item` has no `name`'],
    ['{{a.output.issues[0].more}}', '{{item.name}}', null],
    ['{{input.rows}}', '{{item.name}}', null],
    [['x', 'y'], '{{item.name}}', '`item` is text, which has no `name`'],
    [[{ name: 'x' }, { id: 1 }], '{{item.name}} {{item.id}}', null],
    [[{ name: 'x' }, { id: 1 }], '{{item.nme}}', '`item` has no `nme` (it has `name`, `id`)'],
    [[{ of: '{{a}}' }], '{{item.of.total}}', null],
    [[{ of: '{{a}}' }], '{{item.of.totl}}', '`of` has no `totl`'],
    [[], '{{item.name}}', null],
    [[null], '{{item.name}}', null],
    [Array.from({ length: 30 }, (_, at) => ({ [`n${at}`]: at })), '{{item.any}}', null],
  ])('of an item of %j: %s', (forEach, text, message) => {
    const expected = message === null ? [] : [expect.stringContaining(message)]
    expect(check({ for_each: forEach, ...param(text) })).toEqual(expected)
  })

  test.each(['{{a.output.total}}', '{{a}}', '{{input.text}}', '{{today}}', 'x{{input.rows}}', '{{"[]"}}'])(
    '`for_each` over %s is refused',
    (forEach) => {
      expect(check({ for_each: forEach })).toEqual([
        expect.stringContaining(
          'steps.1.for_each: step `b`: `for_each` must be a template that gives a list',
        ),
      ])
    },
  )
})

describe('the place of the item in another list', () => {
  test.each<[string, string | null]>([
    ['{{a.output.issues[index].title}}', null],
    ['{{input.rows[index]}}', null],
    ['{{input.uploaded_files[index].text}}', null],
    ['{{a.output.issues[index].titel}}', '`[index]` has no `titel`'],
    ['{{a.output[index]}}', 'the output of step `a` has no `[index]`'],
    ['{{a.output.total[index]}}', '`total` is a number, which has no `[index]`'],
    ['{{input.text[index]}}', 'input `text` is text, which has no `[index]`'],
  ])('%s', (text, message) => {
    const expected = message === null ? [] : [expect.stringContaining(message)]
    expect(check({ for_each: [1, 2], ...param(text) })).toEqual(expected)
    expect(check(param(text))).toEqual([expect.stringContaining('only has a value in')])
    expect(check({ for_each: text })).toEqual(
      expect.arrayContaining([expect.stringContaining('only has a value in')]),
    )
  })

  test('is checked in the list of a step with `for_each`', () => {
    const each = { for_each: [1, 2] }
    expect(check({ ...each, ...param('{{a.output[index].total}}') }, each)).toEqual([])
    expect(check({ ...each, ...param('{{a.output[index].totl}}') }, each)).toEqual([
      expect.stringContaining('`[index]` has no `totl`'),
    ])
  })

  test('has the type of the list’s elements', () => {
    expect(check({ for_each: [1], params: { repo: '{{a.output.issues[index].number}}' } })).toEqual([
      expect.stringContaining('must be text, and `{{a.output.issues[index].number}}` is a number'),
    ])
  })

  test('has no value in a result', () => {
    const result = { steps: [{ id: 'a', tool: 'list' }], inputs, result: { r: '{{a.output.issues[index]}}' } }
    expect(checkDefinition(workflowDefinition.parse(result), catalog)).toEqual([
      { path: 'result.r', message: expect.stringContaining('only has a value in') },
    ])
  })
})

describe('a template in the name of a field', () => {
  test.each<[object, string]>([
    [
      { params: { any: [{ 'for {{input.text}}': 1 }] } },
      'steps.1.params: step `b`: `for {{input.text}}` is the name',
    ],
    [
      { for_each: [{ '{{input.text}}': 1 }] },
      'steps.1.for_each: step `b`: `{{input.text}}` is the name of a field',
    ],
    [
      { when: { value: { '{{x': 1 }, operator: 'exists' } },
      'steps.1.when: step `b`: `{{x` is the name of a field',
    ],
  ])('is refused: %j', (step, message) => {
    expect(check(step)).toContainEqual(expect.stringContaining(message))
  })

  test('is refused in the result', () => {
    const result = { '{{input.text}}': 1, r: { '{{input.on}}': 1 } }
    const definition = workflowDefinition.parse({ inputs, steps: [{ id: 'a', tool: 'list' }], result })
    expect(checkDefinition(definition, catalog).map(({ path }) => path)).toEqual([
      'result.{{input.text}}',
      'result.r',
    ])
  })
})

describe('many references to a value with many forms', () => {
  let names = 0
  const lists = (depth: number): Json =>
    depth === 0 ? { [`k${names++}`]: 1 } : Array.from({ length: 20 }, () => lists(depth - 1))
  const one = lists(1)
  const all = lists(3)

  test('are checked, and a mistake in each of them gives 100 issues', () => {
    const wrong = param(Array<Json>(2_000).fill('{{item.none}}'))
    expect(check({ for_each: one, ...wrong })).toHaveLength(100)
    expect(check({ for_each: one, ...param(Array<Json>(2_000).fill('{{item.k3}}')) })).toEqual([])
  })

  test('do not look at each form again', () => {
    // Each of these references once took 8 ms, because 8,000 forms were looked up.
    const step = { for_each: all, ...param(Array<Json>(2_000).fill('{{item[0][0].none}}')) }
    let found: string[] = []
    expect(cpuMilliseconds(() => (found = check(step)))).toBeLessThan(3_000)
    expect(found).toEqual([])
  })
})
