import { describe, expect, test } from '@jest/globals'
import { z } from 'zod'
import { getTool } from '../../src/tools/index.ts'
import { defineTool, type ToolDeclaration } from '../../src/tools/kit/tool.ts'
import { checkDefinition } from '../../src/contract/definition-check.ts'
import { dependencies } from '../../src/contract/definition-graph.ts'
import { planOf } from '../../src/governance/runs/start/plan-run.ts'
import { workflowDefinition, type WorkflowDefinition } from '../../src/contract/definition.ts'
import { checkInputs } from '../../src/contract/inputs.ts'
import { parseParams } from '../../src/contract/tool-params.ts'
import type { Json, JsonObject } from '../../src/policy/types.ts'

/* Definitions of workflows that use two tools: their shape, their errors, and what a run reads from them. */

const common = {
  description: '',
  categories: [],
  constraints: {},
  reversible: 'yes',
  connection: 'none',
  timeoutSeconds: 10,
} as const

const mail = defineTool({
  ...common,
  name: 'mail',
  output: z.strictObject({ id: z.string() }),
  sideEffect: 'egress',
  outputLabels: [],
  risk: 'high',
  repeat: 'unsafe',
  params: z.strictObject({
    to: z.string(),
    subject: z.string().optional(),
    copies: z.number().default(1),
    extra: z.strictObject({ tags: z.array(z.string()) }).optional(),
  }),
})

const read = defineTool({
  ...common,
  name: 'read',
  sideEffect: 'read',
  outputLabels: ['internal'],
  risk: 'medium',
  repeat: 'free',
  params: z.strictObject({ path: z.string().optional() }),
  output: z.looseObject({}),
})

const tools: Record<string, ToolDeclaration> = { mail, read }
const catalog = { get: (name: string) => (Object.hasOwn(tools, name) ? tools[name] : undefined) }

type Step = Record<string, unknown> & { id: string }

function parse(steps: Step[], more: object = {}): WorkflowDefinition {
  const complete = steps.map((step) => ({ tool: 'read', ...step }))
  return workflowDefinition.parse({ steps: complete, ...more })
}

/** `path: message` of every issue. */
function check(steps: Step[], more: object = {}): string[] {
  return checkDefinition(parse(steps, more), catalog).map((issue) => `${issue.path}: ${issue.message}`)
}

describe('a definition that can be saved', () => {
  test('may use every documented field', () => {
    const issues = check(
      [
        { id: 'a', params: { path: '{{input.path}}/{{today}}' } },
        {
          id: 'b',
          tool: 'mail',
          params: {
            to: '{{item.email}}',
            subject: '#{{index}}',
            extra: { tags: ['{{a.output[0].x}}', 'y'] },
          },
          depends_on: ['a'],
          when: { value: '{{steps.a.output.on}}', operator: 'domain_not_in', compare: ['acme.com'] },
          for_each: '{{a.output.people}}',
          retry: { attempts: 3, backoff_seconds: 0.5 },
          timeout_seconds: 30,
          on_error: 'continue',
          summary: 'Tell them',
        },
        {
          id: 'c',
          params: { path: '{{input.uploaded_files}}' },
          when: { value: '{{a}}', operator: 'exists' },
        },
      ],
      {
        inputs: { path: { type: 'string', required: true, default: 'x', description: 'Where' } },
        result: { sent: '{{b.output}}', all: ['{{steps.c.output.x}}'] },
        categories: ['financial', 'pii'],
      },
    )
    expect(issues).toEqual([])
  })

  test('gets empty params if the step has none', () => {
    expect(parse([{ id: 'a' }]).steps[0]?.params).toEqual({})
  })
})

describe('the shape', () => {
  const step = { id: 'a', tool: 'read', params: {} }
  test.each<[string, object, object?]>([
    ['no step', []],
    ['an unknown field', { colour: 'red' }],
    ['an unknown top-level field', [step], { version: 1 }],
    ['params that are a list', { params: [] }],
    ['an unknown operator', { when: { value: 1, operator: 'like', compare: 1 } }],
    ['an operator on labels', { when: { value: 1, operator: 'from_label', compare: ['x'] } }],
    ['a `when` without value', { when: { operator: 'exists' } }],
    ['no attempts', { retry: { attempts: 0, backoff_seconds: 1 } }],
    ['half a retry', { retry: { attempts: 2 } }],
    ['a negative time-out', { timeout_seconds: -1 }],
    ['another on_error', { on_error: 'ignore' }],
    ['for_each over a number', { for_each: 3 }],
    ['an unknown input type', [step], { inputs: { a: { type: 'date' } } }],
    ['NUL in a param', { params: { path: 'a\u0000' } }],
    ['NUL in a key', { params: { 'a\u0000': 1 } }],
    ['a forbidden key', { params: JSON.parse('{"path": {"__proto__": 1}}') as unknown }],
    ['a forbidden parameter', { params: JSON.parse('{"__proto__": 1}') as unknown }],
    ['another forbidden key', { params: { path: { constructor: 1 } } }],
    ['over 1,000 steps', Array.from({ length: 1001 }, (_, index) => ({ ...step, id: `s${index}` }))],
    ['too deep a param', { params: JSON.parse(`{"a":${'['.repeat(80)}${']'.repeat(80)}}`) as unknown }],
  ])('is refused with %s', (_, steps, more = {}) => {
    const all = Array.isArray(steps) ? steps : [{ ...step, ...steps }]
    expect(workflowDefinition.safeParse({ steps: all, ...more }).success).toBe(false)
  })
})

test('dependencies are named steps and referenced steps', () => {
  const definition = parse([
    { id: 'a' },
    { id: 'b' },
    { id: 'c', depends_on: ['a'] },
    { id: 'd', depends_on: ['a', 'a'], params: { path: ['{{b.output}}', '{{a}}'] } },
    {
      id: 'e',
      for_each: '{{steps.c.output}}',
      when: { value: '{{a}}', operator: 'equals', compare: '{{b}}' },
    },
  ])
  const found = Object.fromEntries(dependencies(definition))
  expect(found).toEqual({ a: [], b: [], c: ['a'], d: ['a', 'b'], e: ['a', 'b', 'c'] })
})

describe('inputs', () => {
  const definition = {
    inputs: {
      who: { type: 'string', required: true },
      copies: { type: 'number', default: 2 },
      tags: { type: 'array' },
      on: { type: 'boolean', required: true, default: false },
    },
  } as const

  test('are returned with defaults, and without inputs that were not given', () => {
    const whole = { inputs: { who: 'Ann', copies: 2, on: false }, areComplete: true }
    expect(checkInputs(definition, { who: 'Ann' })).toEqual(whole)
    expect(checkInputs(definition, { who: 'Ann', tags: null, copies: null })).toEqual(whole)
    expect(checkInputs({}, {})).toEqual({ inputs: {}, areComplete: true })
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`${'k'.repeat(500)}${n}`, 0]))
    const issues = checkInputs(definition, { who: 'Ann', ...many })
    expect(issues).toHaveLength(100)
    expect(JSON.stringify(issues).length).toBeLessThan(50_000)
  })

  test('may lack a required one for a preview; then no default is filled in', () => {
    const partly = (inputs: JsonObject) => checkInputs(definition, inputs, { mayLack: true })
    expect(partly({ tags: ['a'] })).toEqual({ inputs: { tags: ['a'] }, areComplete: false })
    expect(partly({ who: 'Ann' })).toMatchObject({ inputs: { copies: 2 }, areComplete: true })
    expect(partly({ tags: 'a' })).toEqual([expect.objectContaining({ path: 'inputs.tags' })])
  })

  test.each([
    [{}, 'inputs.who'],
    [{ who: null }, 'inputs.who'],
    [{ who: 7 }, 'inputs.who'],
    [{ who: 'a', tags: {} }, 'inputs.tags'],
    [{ who: 'a', copies: '2' }, 'inputs.copies'],
    [{ who: 'a', extra: 1 }, 'inputs.extra'],
    [{ who: 'a', constructor: 1 }, 'inputs.constructor'],
    [{ who: 'a\u0000' }, 'inputs.who'],
  ])('%j is refused at %s', (inputs, path) => {
    expect(checkInputs(definition, inputs)).toContainEqual(expect.objectContaining({ path }))
  })
})

describe('parameters during a run', () => {
  test.each([{}, { subject: null, copies: null }])('get their defaults where %j leaves them out', (more) => {
    expect(parseParams(mail, { to: 'a', ...more })).toEqual({ ok: true, params: { to: 'a', copies: 1 } })
  })

  test.each([
    [{}, 'to'],
    [{ to: null }, 'to'],
    [{ to: 'a', copies: 'x' }, 'copies'],
    [{ to: 'a', other: 1 }, 'other'],
    [{ to: 'a', extra: { tags: ['x'], more: 1 } }, 'extra.more'],
    [JSON.parse('{"to": "a", "__proto__": {}}') as { to: string }, '__proto__'],
  ])('%j is refused at %s', (params, path) => {
    expect(parseParams(mail, params)).toEqual({ ok: false, issues: [expect.objectContaining({ path })] })
  })
})

test('a plan has each step’s tool, dependencies and conditions', () => {
  const definition = parse([
    { id: 'a' },
    { id: 'b', tool: 'mail', params: { to: '{{a}}' }, for_each: ['x'], on_error: 'continue' },
    { id: 'lost', tool: 'gone' },
  ])
  const plan = planOf(definition, catalog, () => null, { inputs: { x: 1 }, areInputsComplete: true }, false)
  expect(plan).toMatchObject({ inputs: { x: 1 }, areInputsComplete: true })
  expect(plan.steps).toMatchObject([
    { id: 'a', sideEffect: 'read', outputLabels: ['internal'], dependsOn: [], bringsOwnLabels: false },
    { id: 'b', sideEffect: 'egress', dependsOn: ['a'], forEach: ['x'], onError: 'continue' },
    { id: 'lost', sideEffect: 'egress', bringsOwnLabels: true },
  ])
})

test('at a host that is not the service’s own, a parameter that takes an output makes a read egress', () => {
  const definition = parse([
    { id: 'a', params: { path: 'x' } },
    { id: 'b', params: { path: '{{input.x}}' } },
    { id: 'c', params: { path: 'acme/{{a.output.text}}' } },
    { id: 'd', params: { path: '{{item}}' }, for_each: '{{a.output.texts}}' },
  ])
  const effects = (ownHost: boolean, labelled: readonly string[] = []) =>
    planOf(
      definition,
      catalog,
      () => ({ destination: 'git.acme.example', ownHost }),
      {
        inputs: { x: 1 },
        areInputsComplete: true,
        inputLabels: new Map(labelled.map((name) => [name, ['confidential']])),
      },
      false,
    ).steps.map(({ sideEffect }) => sideEffect)
  expect(effects(true)).toEqual(['read', 'read', 'read', 'read'])
  expect(effects(false)).toEqual(['read', 'read', 'egress', 'egress'])
  expect(effects(false, ['x'])).toEqual(['read', 'egress', 'egress', 'egress'])
})

/** A step `a` with these fields, or several steps. */
type Steps = object | Step[]
const stepsOf = (steps: Steps): Step[] => (Array.isArray(steps) ? steps : [{ id: 'a', ...steps }])

/** The parameter of `read`. */
const path = (value: unknown) => ({ params: { path: value } })

test.each<[string, Steps, string, object?]>([
  ['unknown tool', { tool: 'fax' }, 'steps.0.tool: step `a`: there is no tool `fax`'],
  ['unknown tool of a prototype', { tool: 'constructor' }, 'there is no tool `constructor`'],
  ['unknown parameter', { params: { file: 'x' } }, 'steps.0.params.file: step `a`: `read` has no parameter'],
  ['missing parameter', { tool: 'mail' }, 'steps.0.params.to: step `a`: `mail` needs the parameter `to`'],
  ['wrong constant', path(7), 'parameter `path` must be text, not a number'],
  [
    'wrong constant inside',
    { tool: 'mail', params: { to: 'x', extra: { tags: [1] } } },
    'steps.0.params.extra.tags.0: step `a`',
  ],
  ['duplicate id', [{ id: 'a' }, { id: 'a' }], 'steps.1.id: step `a`: another step has the same id'],
  ['reserved id', { id: 'item' }, 'step `item`: this id means something else'],
  ['forbidden id', { id: 'constructor' }, 'step `constructor`: this id means something else'],
  ['bad id', { id: 'a b' }, 'step `a b`: an id has letters'],
  ['bad id with #', { id: 'a#1' }, 'step `a#1`: an id has letters'],
  ['unknown step', path('x {{b.output.y}}'), '`{{b.output.y}}`: there is no step `b`'],
  ['unknown depends_on', { depends_on: ['b'] }, 'steps.0.depends_on: step `a`: there is no step `b`'],
  ['waiting for itself', { depends_on: ['a'] }, 'step `a`: a step cannot wait for itself'],
  ['itself', path('{{a}}'), 'step `a`: `{{a}}` refers to the step itself'],
  ['malformed reference', path('{{a.b.c}}'), '`{{a.b.c}}` is not a reference'],
  [
    'reference without `output`',
    [{ id: 'a' }, { id: 'b', ...path('{{ steps.a.text[0] }}') }],
    '`{{ steps.a.text[0] }}` is not a reference: write `{{steps.a.output.text[0]}}`',
  ],
  [
    'reference with a bad path',
    [{ id: 'a' }, { id: 'b', ...path('{{a.text | trim}}') }],
    'nor an expression: `a.text` is not a value: the output of a step is `a.output`',
  ],
  ['unclosed reference', path('x {{a'), 'expected an operator or `}}` (at the end'],
  ['unknown step in an expression', path('{{ "x" + b.output.y }}'), 'there is no step `b`'],
  ['itself in an expression', path('{{ "x" + a.output.text }}'), 'refers to the step itself'],
  ['a number where the tool wants text', path('{{ 1 + 1 }}'), 'must be text, and `{{ 1 + 1 }}` is a number'],
  [
    'when as text without a template',
    { when: 'yes' },
    'steps.0.when: step `a`: `when` as text must be one template',
  ],
  ['when as a number', { when: '{{ size([1]) }}' }, 'one template that gives true or false'],
  ['item outside, in an expression', path('{{ "x" + item }}'), '`{{item}}` only has a value'],
  ['unknown input', path('{{input.x}}'), 'the workflow declares no input `x`'],
  ['item outside', path('{{item}}'), '`{{item}}` only has a value'],
  ['item in for_each', { for_each: '{{item}}' }, '`{{item}}` only has a value'],
  ['constant for_each', { for_each: 'rows' }, 'steps.0.for_each: step `a`: `for_each` must be a template'],
  ['long for_each', { for_each: Array(10_001).fill(1) }, 'more than 10,000 items'],
  ['unknown step in when', { when: { value: '{{b}}', operator: 'exists' } }, 'steps.0.when.value: step `a`'],
  ['when without compare', { when: { value: 1, operator: 'equals' } }, 'needs a value in `compare`'],
  ['when with one for a list', { when: { value: 1, operator: 'in', compare: 1 } }, 'a list of values'],
  ['when with a suffix', { when: { value: 1, operator: 'domain_in', compare: ['com'] } }, 'public suffix'],
  ['unknown step in the result', {}, 'result.r: result `r`: `{{b}}`', { result: { r: '{{b}}' } }],
  ['item in the result', {}, '`{{item}}` only has a value', { result: { r: '{{item}}' } }],
  [
    'bad default',
    {},
    'inputs.n: input `n`: the default',
    { inputs: { n: { type: 'number', default: '1' } } },
  ],
  ['bad input name', {}, 'a name has letters', { inputs: { 'a b': { type: 'string' } } }],
  ['reserved input', {}, 'choose another', { inputs: { uploaded_files: { type: 'array' } } }],
])('an error that the schema cannot find: %s', (_, steps, message, more = {}) => {
  expect(check(stepsOf(steps), more)).toContainEqual(expect.stringContaining(message))
})

describe('an error that the schema cannot find', () => {
  test('a misspelt tool gets suggestions', () => {
    const definition = parse([{ id: 'a', tool: 'read_file' }])
    const message =
      'step `a`: there is no tool `read_file`: did you mean `file_read`; `GET /tools` lists the tools'
    expect(checkDefinition(definition, { get: getTool })).toEqual([{ path: 'steps.0.tool', message }])
  })

  test('a cycle names its steps and no others', () => {
    const steps = [
      { id: 'start' },
      { id: 'a', params: { path: '{{c}} {{start}}' } },
      { id: 'b', depends_on: ['a'] },
      { id: 'c', when: { value: '{{b.output}}', operator: 'exists', compare: true } },
      { id: 'end', depends_on: ['c'] },
    ]
    const [issue, ...others] = check(steps)
    expect(others).toEqual([])
    expect(issue).toMatch(/^steps: steps wait for each other in a cycle: /)
    expect(issue).not.toMatch(/start|end/)
    for (const id of ['a', 'b', 'c']) expect(issue).toContain(`\`${id}\``)
  })

  test('a value that a template fills in is checked during the run, if it can have any type', () => {
    expect(
      check([
        { id: 'a', tool: 'mail', params: { to: '{{b.output.x}}', copies: '{{b.output.x}}', extra: '{{b}}' } },
        { id: 'b' },
      ]),
    ).toEqual([])
  })

  test('a definition that skipped the schema is checked too', () => {
    const raw = JSON.parse(
      '{"steps": [{"id": "a", "tool": "read", "params": {"__proto__": 1}}]}',
    ) as WorkflowDefinition
    expect(checkDefinition(raw, catalog)).toEqual([
      expect.objectContaining({ path: 'steps.0.params.__proto__' }),
    ])
    const many = {
      steps: Array.from({ length: 1001 }, (_, index) => ({ id: `s${index}`, tool: 'read', params: {} })),
    }
    expect(checkDefinition(many, catalog)).toEqual([expect.objectContaining({ path: 'steps' })])
  })

  test('1,000 steps in a chain with a long cycle are checked quickly', () => {
    const chain = Array.from({ length: 1000 }, (_, index) => ({
      id: `s${index}`,
      depends_on: [`s${(index + 1) % 1000}`],
    }))
    expect(check(chain)).toHaveLength(1)
  })
})

describe('the names on the way to a template', () => {
  const template = '{{s0.output}}'
  const s0 = { id: 's0', tool: 'memory_get', params: { key: 'k' } }

  const nested = (value: Json, name: string, levels: number): Json =>
    levels === 0 ? value : { [name]: nested(value, name, levels - 1) }

  const checkReal = (definition: object) =>
    checkDefinition(workflowDefinition.parse(definition), { get: getTool })
  const checkValue = (value: Json) =>
    checkReal({ steps: [s0, { id: 's1', tool: 'memory_set', params: { key: 'k', value } }] })

  test('are refused if they are many and long, with a short path', () => {
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

  test('are in at most ten issues', () => {
    const names = Array.from({ length: 30 }, (_, index) => `${'a'.repeat(990)}${index}`)
    const value = nested(Object.fromEntries(names.map((name) => [name, template])), 'b'.repeat(999), 1)
    expect(checkValue({ value, other: nested(value, 'c', 1) })).toHaveLength(10)
  })

  test('are limited in the result too', () => {
    const result = { all: nested(template, 'a'.repeat(999), 3) }
    expect(checkReal({ steps: [s0], result })).toMatchObject([
      { path: expect.stringMatching(/^result\.all\.a/) },
    ])
  })

  test('are accepted with up to 2,000 characters together', () => {
    expect(checkValue(nested([template], 'a'.repeat(980), 2))).toEqual([])
    expect(checkValue(nested([template], 'level', 50))).toEqual([])
  })
})
