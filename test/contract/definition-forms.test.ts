import fc from 'fast-check'
import { describe, expect, test } from '@jest/globals'
import { z } from 'zod'
import { getTool } from '../../src/tools/index.ts'
import { anyJson, defineTool, type ToolDeclaration } from '../../src/tools/kit/tool.ts'
import { checkDefinition } from '../../src/contract/definition-check.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { withFilesAsText, parseParams } from '../../src/contract/tool-params.ts'
import { resolve, type Scope } from '../../src/policy/templates.ts'
import type { Json, JsonObject } from '../../src/policy/types.ts'
import { cpuMilliseconds } from '../policy/cpu-time.ts'
import { builtinsAt } from '../policy/template-scope.ts'

/*
 * References to outputs and inputs of a known form, the types of parameters, and the law that the check of a definition
 * keeps.
 */

const list = defineTool({
  description: '',
  categories: [],
  constraints: {},
  connection: 'none',
  timeoutSeconds: 10,
  sideEffect: 'read',
  outputLabels: [],
  risk: 'low',
  repeat: 'free',
  reversible: 'yes',
  name: 'list',
  params: z.strictObject({
    repo: z.string().optional(),
    state: z.enum(['open', 'closed']).optional(),
    most: z.int().min(5).optional(),
    labels: z.union([z.string().min(1), z.array(z.string()).min(1).max(2)]).optional(),
    filter: z.strictObject({ author: z.string().max(10), draft: z.boolean().optional() }).optional(),
    any: anyJson.optional(),
  }),
  output: z.strictObject({
    total: z.int(),
    next: z.string().nullable(),
    issues: z.array(
      z.strictObject({ number: z.int(), title: z.string(), labels: z.array(z.string()), more: anyJson }),
    ),
    either: z.union([z.string(), z.strictObject({ id: z.string() })]),
    names: z.record(z.string(), z.boolean()),
    loose: z.looseObject({ known: z.strictObject({ a: z.string() }) }),
  }),
})

const catalog = {
  get: (name: string): ToolDeclaration | undefined => (name === 'list' ? list : getTool(name)),
}

const inputs = {
  text: { type: 'string' },
  count: { type: 'number' },
  on: { type: 'boolean' },
  rows: { type: 'array' },
  object: { type: 'object' },
} as const

/** Expects one issue with this text; null expects none. */
const only = (text: string | null) => (text === null ? [] : [expect.stringContaining(text)])

/** The issues of a step `a` that calls `list`, and this result. */
const checkResult = (result: object) =>
  checkDefinition(workflowDefinition.parse({ steps: [{ id: 'a', tool: 'list' }], inputs, result }), catalog)

/** `path: message` of every issue of a step `b` after a step `a` that calls `list`. */
function check(step: object, first: object = {}): string[] {
  const steps = [
    { id: 'a', tool: 'list', ...first },
    { id: 'b', tool: 'list', ...step },
  ]
  const issues = checkDefinition(workflowDefinition.parse({ inputs, steps }), catalog)
  return issues.map(({ path, message }) => `${path}: ${message}`)
}

const param = (any: Json) => ({ params: { any } })

test.each<[string, string | null]>([
  ["{{ upper(a.output.next ?? '') }}", null],
  ['{{ a.output.issues.filter(i, i.number > 1).map(i, i.title + "!") }}', null],
  ['{{ a.output.issues[a.output.total - 1].more.x + 1 }}', null],
  ['{{ first(a.output.issues).title }}', null],
  ['{{ upper(a.output.nxt) }}', 'the output of step `a` has no `nxt`'],
  ['{{ map(a.output.issues, i, i.titel) }}', 'the value has no `titel` (it has `number`, `title`'],
  ['{{ first(a.output.issues).titel }}', 'has no `titel`'],
  ['{{ group(a.output.issues, i, i.title).map(g, g.name) }}', 'has no `name` (it has `key`, `items`)'],
  ['{{ a.output.next * 2 }}', '`*` needs numbers, and one side is text: write `number(…)`'],
  ['{{ a.output.total + a.output.next }}', '`+` joins two texts or adds two numbers'],
  ['{{ a.output.next > 3 }}', '`>` compares a number with text'],
  ['{{ a.output.next ? 1 : 2 }}', 'a condition must be true or false, and this is text'],
])('an expression over an output: %s: %s', (text, issue) => {
  expect(check(param(text))).toEqual(only(issue))
})

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
    expect(check(param(text))).toEqual(only(message))
    expect(check(param(['x', { y: `in text ${text}` }]))).toEqual(only(issue))
    expect(check({ when: { value: text, operator: 'exists' } })).toEqual(only(message))
    const inResult = { path: 'result.r', message: expect.stringContaining(message) }
    expect(checkResult({ r: [text] })).toEqual([inResult])
  })

  test('of a step with `for_each` begins with a place in the list', () => {
    const each = { for_each: [1, 2] }
    expect(check(param('{{a.output[1].total}}'), each)).toEqual([])
    expect(check({ for_each: '{{a.output}}', ...param('{{item.total}}') }, each)).toEqual([])
    const asList = 'the output of step `a`, which has `for_each`, is a list, which has no `total`'
    expect(check(param('{{a.output.total}}'), each)).toEqual(only(asList))
    const wrong = { for_each: '{{a.output}}', ...param('{{item.totl}}') }
    expect(check(wrong, each)).toEqual(only('`item` has no `totl`'))
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
    expect(check({ for_each: forEach, ...param(text) })).toEqual(only(message))
  })

  test.each(['{{a.output.total}}', '{{a}}', '{{input.text}}', '{{today}}', 'x{{input.rows}}', '{{"[]"}}'])(
    '`for_each` over %s is refused',
    (forEach) => {
      const message = 'steps.1.for_each: step `b`: `for_each` must be a template that gives a list'
      expect(check({ for_each: forEach })).toEqual(only(message))
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
    expect(check({ for_each: [1, 2], ...param(text) })).toEqual(only(message))
    expect(check(param(text))).toEqual(only('only has a value in'))
    expect(check({ for_each: text })).toEqual(expect.arrayContaining(only('only has a value in')))
  })

  test('is checked in the list of a step with `for_each`', () => {
    const each = { for_each: [1, 2] }
    expect(check({ ...each, ...param('{{a.output[index].total}}') }, each)).toEqual([])
    const wrong = { ...each, ...param('{{a.output[index].totl}}') }
    expect(check(wrong, each)).toEqual(only('`[index]` has no `totl`'))
  })

  test('has the type of the list’s elements', () => {
    const repo = '{{a.output.issues[index].number}}'
    const message = `must be text, and \`${repo}\` is a number`
    expect(check({ for_each: [1], params: { repo } })).toEqual(only(message))
  })

  test('has no value in a result', () => {
    expect(checkResult({ r: '{{a.output.issues[index]}}' })).toEqual([
      { path: 'result.r', message: expect.stringContaining('only has a value in') },
    ])
  })
})

describe('a template in the name of a field', () => {
  test.each<[object, string, string]>([
    [{ params: { any: [{ 'for {{input.text}}': 1 }] } }, 'params', 'for {{input.text}}'],
    [{ for_each: [{ '{{input.text}}': 1 }] }, 'for_each', '{{input.text}}'],
    [{ when: { value: { '{{x': 1 }, operator: 'exists' } }, 'when', '{{x'],
  ])('is refused: %j', (step, place, name) => {
    const message = `steps.1.${place}: step \`b\`: \`${name}\` is the name of a field`
    expect(check(step)).toContainEqual(expect.stringContaining(message))
  })

  test('is refused in the result', () => {
    const result = { '{{input.text}}': 1, r: { '{{input.on}}': 1 } }
    expect(checkResult(result).map(({ path }) => path)).toEqual(['result.{{input.text}}', 'result.r'])
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

describe('the type of a parameter', () => {
  test.each<JsonObject>([
    { repo: '{{a.output.issues[0].title}}' },
    { repo: '{{a.output.next}}' },
    { repo: 'number {{input.count}}' },
    { repo: "{{''}}{{input.count}}" },
    { repo: '{{a.output.either}}' },
    { repo: '{{a.output.issues[0].more}}' },
    { state: '{{input.text}}' },
    { most: '{{input.count}}' },
    { labels: '{{input.text}}' },
    { labels: '{{input.rows}}' },
    { labels: ['{{input.text}}', 'x'] },
    { filter: '{{input.object}}' },
    { filter: { author: '{{input.text}}', draft: '{{input.on}}' } },
    { filter: { author: 'a {{input.text}}' } },
    { any: ['{{a}}', { x: '{{input.count}}', y: '{{input.rows[0]}}' }] },
  ])('fits: %j', (params) => {
    expect(check({ params })).toEqual([])
  })

  test.each<[object, string]>([
    [
      { repo: '{{input.count}}' },
      "`{{input.count}}` is a number: write `{{''}}{{input.count}}` to make it text",
    ],
    [{ repo: '{{input.count}}' }, 'params.repo: step `b`: parameter `repo` must be text'],
    [{ repo: '{{input.on}}' }, '`repo` must be text, and `{{input.on}}` is true or false'],
    [{ repo: '{{a.output.total}}' }, '`repo` must be text, and `{{a.output.total}}` is a number'],
    [{ repo: '{{a}}' }, '`repo` must be text, and `{{a}}` is an object'],
    [{ most: '{{today}}' }, '`most` must be a number, and `{{today}}` is text'],
    [{ most: '1{{input.count}}' }, 'parameter `most` must be a number'],
    [{ state: '{{input.count}}' }, 'parameter `state` must be `open` or `closed`'],
    [{ labels: '{{input.count}}' }, 'parameter `labels` must be text or a list'],
    [{ labels: ['{{input.text}}', 5] }, 'parameter `labels.1` must be text'],
    [{ labels: ['{{input.text}}', 'x', 'y'] }, 'parameter `labels` must have at most 2 entries'],
    [{ labels: ['{{input.on}}'] }, 'parameter `labels.0` must be text, and `{{input.on}}` is true or false'],
    [{ filter: { author: '{{input.text}}', draft: 'no' } }, 'parameter `filter.draft` must be'],
    [{ filter: { autor: '{{input.text}}' } }, '`filter.autor`'],
    [{ filter: { draft: '{{input.on}}' } }, 'parameter `filter.author` is missing'],
    [{ filter: { author: '01234567890{{input.text}}' } }, '`filter.author` must have at most 10 characters'],
    [{ filter: { author: '{{"01234567890"}}' } }, '`filter.author` must have at most 10 characters'],
  ])('does not fit: %j', (params, message) => {
    expect(check({ params })).toContainEqual(expect.stringContaining(message))
  })

  test('of the tools in the catalogue', () => {
    const size = '{{read.output.size}}'
    const sent = { to: ['me', 7], subject: '{{index}}', text: '{{read}}' }
    const steps = [
      { id: 'read', tool: 'file_read', params: { path: 'a.md' } },
      { id: 'keep', tool: 'memory_set', params: { key: size, value: size } },
      { id: 'send', tool: 'mail_send', params: sent, for_each: [1] },
    ]
    const issues = checkDefinition(workflowDefinition.parse({ steps }), { get: getTool })
    expect(issues.map(({ path }) => path)).toEqual([
      'steps.1.params.key',
      'steps.2.params.to.1',
      'steps.2.params.subject',
      'steps.2.params.text',
    ])
  })
})

describe('the law of the check', () => {
  const texts = fc.constantFrom<Json>(
    ...['open', '{{input.text}}', '{{input.count}}', '{{input.on}}', '{{input.rows}}', '{{input.object}}'],
    ...['{{a}}', '{{a.output.either}}', '{{a.output.issues[0].more}}', 'x{{input.text}}'],
    ...["{{''}}{{input.count}}", 'a long text and {{input.on}}', 7, false, null],
  )
  const value: fc.Arbitrary<Json> = fc.oneof(
    { weight: 3, arbitrary: texts },
    fc.array(texts, { maxLength: 3 }),
    fc.dictionary(fc.constantFrom('author', 'draft', 'other'), texts),
  )
  const params = fc.dictionary(fc.constantFrom('repo', 'state', 'most', 'labels', 'filter', 'any'), value)
  const given = fc.record({
    text: fc.constantFrom('open', 'x', ''),
    count: fc.constantFrom(1, 7, 1.5),
    on: fc.boolean(),
    rows: fc.array(fc.constantFrom<Json>('x', 1), { maxLength: 3 }),
    object: fc.dictionary(fc.constantFrom('author', 'draft'), fc.constantFrom<Json>('x', true)),
  })
  const output = fc.record({
    either: fc.constantFrom<Json>('open', { id: 'x' }),
    more: fc.constantFrom<Json>('open', 7, true, ['x'], { author: 'x' }),
  })

  test('only definitions whose calls would fail are refused', () => {
    const counts = { refused: 0, worked: 0 }
    fc.assert(
      fc.property(params, given, output, (params, inputs, { either, more }) => {
        const issues = check({ params })
        const outputs: JsonObject = { total: 1, either, issues: [{ more }] }
        const scope: Scope = { inputs, step: () => outputs, builtins: builtinsAt('2026-03-01') }
        const parsed = parseParams(list, resolve(params, scope).value as JsonObject)
        if (issues.length > 0) {
          counts.refused += 1
          expect(parsed.ok).toBe(false)
        } else if (parsed.ok) counts.worked += 1
      }),
      { numRuns: 2_000 },
    )
    expect(counts.refused).toBeGreaterThan(200)
    expect(counts.worked).toBeGreaterThan(200)
  })
})

test('10,000 templates over long lists are checked quickly', () => {
  const items = Array.from({ length: 9_000 }, (_, at) => ({ name: `n${at}`, list: ['x'] }))
  const steps = [
    { id: 'a', tool: 'list' },
    { id: 'b', tool: 'list', for_each: items, params: { any: Array(4_990).fill('{{item.name}}') } },
    { id: 'c', tool: 'list', params: { any: Array(4_990).fill('{{b.output[3].issues[0].more.x}}') } },
  ]
  const definition = workflowDefinition.parse({ steps })
  expect(checkDefinition(definition, catalog)).toEqual([])
})

const files = [
  { id: 'file_1', name: 'a.pdf', text: 'one' },
  { id: 'file_2', name: 'b.csv', text: 'two' },
]
const text = 'File: a.pdf\n\none\n\nFile: b.csv\n\ntwo'
const filled = (tool: string, params: JsonObject) =>
  resolve(withFilesAsText(getTool(tool) as ToolDeclaration, params), {
    inputs: { uploaded_files: files },
    step: () => undefined,
    builtins: builtinsAt('2026-03-01'),
  }).value

describe('the files of a run as a whole parameter', () => {
  const all = '{{input.uploaded_files}}'
  test('are their text where a parameter takes only text', () => {
    expect(filled('llm_generate', { prompt: all })).toEqual({ prompt: text })
    expect(filled('mail_send', { text: '{{ input.uploaded_files }}', to: 'me' })).toEqual({ text, to: 'me' })
  })

  test('are a list where a parameter takes any value', () => {
    expect(filled('memory_set', { key: 'k', value: all })).toEqual({ key: 'k', value: files })
  })

  test('lead to their parts', () => {
    expect(filled('llm_generate', { prompt: '{{input.uploaded_files[1].text}}' })).toEqual({ prompt: 'two' })
  })
})
