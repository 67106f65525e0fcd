import { describe, expect, test } from '@jest/globals'
import type { JsonObject } from '../../src/policy/types.ts'
import { checkInputs } from '../../src/contract/definition-inputs.ts'
import { dependencies } from '../../src/contract/definition-graph.ts'
import { planOf } from '../../src/contract/definition-plan.ts'
import { parseParams } from '../../src/contract/tool-params.ts'
import { workflowDefinition } from '../../src/contract/definition.ts'
import { mail, catalog, parse, check } from './definition-tools.ts'

function refused(steps: unknown, more: object = {}): string[] {
  const parsed = workflowDefinition.safeParse({ steps, ...more })
  return parsed.success ? [] : parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`)
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
  test.each<[string, unknown, object?]>([
    ['no step', []],
    ['an unknown field', [{ ...step, colour: 'red' }]],
    ['an unknown top-level field', [step], { version: 1 }],
    ['params that are a list', [{ ...step, params: [] }]],
    ['an unknown operator', [{ ...step, when: { value: 1, operator: 'like', compare: 1 } }]],
    ['an operator on labels', [{ ...step, when: { value: 1, operator: 'from_label', compare: ['x'] } }]],
    ['a `when` without value', [{ ...step, when: { operator: 'exists' } }]],
    ['no attempts', [{ ...step, retry: { attempts: 0, backoff_seconds: 1 } }]],
    ['half a retry', [{ ...step, retry: { attempts: 2 } }]],
    ['a negative time-out', [{ ...step, timeout_seconds: -1 }]],
    ['another on_error', [{ ...step, on_error: 'ignore' }]],
    ['for_each over a number', [{ ...step, for_each: 3 }]],
    ['an unknown input type', [step], { inputs: { a: { type: 'date' } } }],
    ['NUL in a param', [{ ...step, params: { path: 'a\u0000' } }]],
    ['NUL in a key', [{ ...step, params: { 'a\u0000': 1 } }]],
    ['a forbidden key', [{ ...step, params: JSON.parse('{"path": {"__proto__": 1}}') as unknown }]],
    ['a forbidden parameter', [{ ...step, params: JSON.parse('{"__proto__": 1}') as unknown }]],
    ['another forbidden key', [{ ...step, params: { path: { constructor: 1 } } }]],
    ['over 1,000 steps', Array.from({ length: 1001 }, (_, index) => ({ ...step, id: `s${index}` }))],
    [
      'too deep a param',
      [{ ...step, params: JSON.parse(`{"a":${'['.repeat(80)}${']'.repeat(80)}}`) as unknown }],
    ],
  ])('is refused with %s', (_, steps, more = {}) => {
    expect(refused(steps, more)).not.toEqual([])
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
      when: { value: '{{a}}', operator: 'equals', compare: '{{b}}' },
      for_each: '{{steps.c.output}}',
    },
  ])
  expect(dependencies(definition)).toEqual(
    new Map([
      ['a', []],
      ['b', []],
      ['c', ['a']],
      ['d', ['a', 'b']],
      ['e', ['a', 'b', 'c']],
    ]),
  )
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
  test('are validated, with defaults filled in', () => {
    expect(parseParams(mail, { to: 'a' })).toEqual({ ok: true, params: { to: 'a', copies: 1 } })
  })

  test('null for an optional parameter counts as left out', () => {
    expect(parseParams(mail, { to: 'a', subject: null, copies: null })).toEqual({
      ok: true,
      params: { to: 'a', copies: 1 },
    })
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
  const plan = planOf(definition, catalog, () => null, { inputs: { x: 1 }, areInputsComplete: true })
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
    planOf(definition, catalog, () => ({ destination: 'git.acme.example', ownHost }), {
      inputs: { x: 1 },
      areInputsComplete: true,
      inputLabels: new Map(labelled.map((name) => [name, ['confidential']])),
    }).steps.map(({ sideEffect }) => sideEffect)
  expect(effects(true)).toEqual(['read', 'read', 'read', 'read'])
  expect(effects(false)).toEqual(['read', 'read', 'egress', 'egress'])
  expect(effects(false, ['x'])).toEqual(['read', 'egress', 'egress', 'egress'])
})
