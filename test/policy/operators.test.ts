import { readFileSync } from 'node:fs'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { addressesIn } from '../../src/policy/operators/addresses.ts'
import { Budget } from '../../src/policy/budget.ts'
import { valuesOf } from '../../src/policy/example-calls.ts'
import { describeConditions } from '../../src/policy/explain.ts'
import {
  byOperand,
  type ParamCondition,
  type WhenOperator,
  whenOperators,
} from '../../src/policy/operators/index.ts'
import { type Call, decide } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import type { PlanStep } from '../../src/policy/plan-types.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { ToolName } from '../../src/tools/index.ts'
import type { CallSource, Json, JsonObject, Verdict } from '../../src/policy/types.ts'
import { analyze, rule } from './plan-steps.ts'
import { holds } from '../../src/policy/when.ts'
import { ask } from './ask.ts'
import { rows, samples } from './operator-rows.ts'

function matches(
  verdict: Verdict,
  condition: ParamCondition,
  params: JsonObject,
  more: Partial<Call> = {},
): boolean {
  const rule = { id: 'rule_1', name: 'rule', status: 'active' as const, verdict, params: [condition] }
  const policy = compilePolicy({ rules: [rule], labelRules: [], approvalsEnabled: true })
  const call = { source: 'workflows' as const, tool: 't', sideEffect: 'egress' as const, labels: [] }
  return decide(policy, { ...call, params, ...more }).matchedRules.length === 1
}

const labelled = { labels: ['pii'] }
const tooLarge = { verdict: 'deny', reason: 'call too large to evaluate' }

describe('operators under the quantifier law', () => {
  test.each(rows)('%s %j on %j: restricts %s, allows %s', (operator, value, params, restricts, allows) => {
    const condition = { param: 'p', operator, value } as ParamCondition
    expect(matches('deny', condition, params)).toBe(restricts)
    expect(matches('require_approval', condition, params)).toBe(restricts)
    expect(matches('allow', condition, params)).toBe(allows)
  })
})

describe.each([...byOperand.values()].flat())('the operator `%s`', (operator) => {
  const { value, text, fits, other } = samples[operator]
  const condition = { param: 'p', operator, value } as ParamCondition

  test('matches its sample, and the other operator does not, or the other way round', () => {
    const withOther = { ...condition, operator: other } as ParamCondition
    const answers = [condition, withOther].map((each) => matches('deny', each, { p: text }, labelled))
    expect(answers).toEqual([fits, !fits])
  })

  test('has words, and examples that match and that do not match', () => {
    expect(describeConditions({ params: [condition] })).toMatch(/^`p` \w+/)
    const others = operator === 'from_label' ? [{ labels: [] }, labelled] : [labelled]
    const answers = valuesOf(condition).flatMap((p) =>
      others.map((more) => matches('deny', condition, { p }, more)),
    )
    expect(new Set(answers)).toEqual(new Set([true, false]))
  })

  test('is in the table of docs/rules.md', () => {
    const [table] = /^\| Operator .*?\n\n/ms.exec(readFileSync('docs/rules.md', 'utf8')) ?? []
    expect(table).toContain(`\`${operator}\``)
  })
})

test.each(whenOperators)('`when` with `%s` agrees with its sample', (operator) => {
  const { value, text, fits, other } = samples[operator]
  expect(holds(operator, text, value as Json)).toBe(fits)
  expect(holds(other as WhenOperator, text, value as Json)).toBe(!fits)
})

test('a parameter with a value outside a domain is denied, and one without a value is not', () => {
  const [there, away] = [
    { param: 'cc', operator: 'exists', value: true },
    { param: 'cc', operator: 'domain_not_in', value: ['acme.com'] },
  ]
  const verdict = (params: JsonObject) =>
    ask([{ verdict: 'deny', params: [there, away] }], { params }).verdict
  for (const cc of ['b@evil.net', ['a@acme.com', 'b@evil.net'], 'me']) expect(verdict({ cc })).toBe('deny')
  for (const cc of ['a@acme.com', null, '', []]) expect(verdict({ cc })).toBe('allow')
  expect(verdict({})).toBe('allow')
})

describe('paths', () => {
  const is = (param: string): ParamCondition => ({ param, operator: 'equals', value: 'x' })

  test.each<[string, JsonObject, boolean]>([
    ['a.b', { a: { b: 'x' } }, true],
    ['a.b', { 'a.b': 'x' }, true],
    ['a.b.c', { a: { b: { c: 'x' } } }, true],
    ['a.b.c', { a: { b: 'x' } }, false],
    ['a.1', { a: ['y', 'x'] }, true],
    ['a.0', { a: ['y', 'x'] }, false],
    ['a.b', { a: [{ b: 'y' }, { b: 'x' }] }, true],
    ['a.*.b', { a: { q: { b: 'x' } } }, true],
    ['*', { q: { deep: ['x'] } }, true],
    ['*', {}, false],
    ['constructor', {}, false],
    ['toString', {}, false],
    ['a.length', { a: ['x'] }, false],
    ['a', JSON.parse('{"__proto__": {"a": "x"}}') as JsonObject, false],
    // `__proto__` is a name like any other: an inherited property is not a parameter, but a sent property is one.
    ['__proto__', {}, false],
    ['__proto__.constructor', { a: 'x' }, false],
    ['a.__proto__', { a: { b: 'x' } }, false],
    ['__proto__', JSON.parse('{"__proto__": "x"}') as JsonObject, true],
    ['__proto__.a', JSON.parse('{"__proto__": {"a": "x"}}') as JsonObject, true],
    ['*', JSON.parse('{"__proto__": "x"}') as JsonObject, true],
  ])('%s in %j: %s', (param, params, expected) => {
    expect(matches('deny', is(param), params)).toBe(expected)
  })

  test('a list element that lacks the path restricts and never allows', () => {
    const params = { guests: [{ email: 'a@acme.com' }, { phone: '1' }] }
    const on = (verdict: Verdict, operator: string, value: unknown) =>
      matches(verdict, { param: 'guests.email', operator, value } as ParamCondition, params)
    expect(on('deny', 'domain_not_in', ['acme.com'])).toBe(true)
    expect(on('allow', 'domain_in', ['acme.com'])).toBe(false)
    for (const isThere of [true, false])
      expect([on('deny', 'exists', isThere), on('allow', 'exists', isThere)]).toEqual([true, false])
  })

  test('a value nested too deeply to read restricts and never allows', () => {
    let deep: JsonObject = { p: 'y' }
    for (let level = 0; level < 100; level++) deep = { p: deep }
    expect(matches('deny', is('*'), deep)).toBe(true)
    expect(matches('allow', is('*'), deep)).toBe(false)
  })
})

describe('from_label', () => {
  const from = (param: string): ParamCondition => ({
    param,
    operator: 'from_label',
    value: ['pii', 'secret'],
  })
  const params = { to: 'x', body: { text: 'y', list: ['z'] } }
  const paramLabels = new Map([
    ['body.text', ['pii']],
    ['body.list.0', ['internal']],
  ])

  test.each([
    ['body', true],
    ['body.text', true],
    ['body.text.more', true],
    ['*', true],
    ['body.list', false],
    ['to', false],
  ])('%s: %s', (param, expected) => {
    expect(matches('deny', from(param), params, { paramLabels, labels: ['pii'] })).toBe(expected)
  })

  test('list positions may be left out of the rule’s path', () => {
    const nested = new Map([['body.0.text', ['secret']]])
    expect(matches('deny', from('body.text'), { body: [{ text: 'y' }] }, { paramLabels: nested })).toBe(true)
  })

  test('a list position that the rule names means only that position', () => {
    const second = new Map([['body.1', ['secret']]])
    expect(matches('deny', from('body.1'), { body: ['x', 'y'] }, { paramLabels: second })).toBe(true)
    expect(matches('deny', from('body.0'), { body: ['x', 'y'] }, { paramLabels: second })).toBe(false)
  })

  test('allow needs the label on every source', () => {
    expect(matches('allow', from('body'), params, { paramLabels })).toBe(false)
    expect(matches('allow', from('body.text'), params, { paramLabels })).toBe(true)
  })

  test('without tracking, what is there comes from everything the session has read', () => {
    expect(matches('deny', from('to'), params, { labels: ['pii'] })).toBe(true)
    expect(matches('deny', from('to'), params, { labels: ['internal'] })).toBe(false)
    expect(matches('deny', from('gone'), params, { labels: ['pii'] })).toBe(false)
  })
})

const matchesTo = (verdict: Verdict, operator: ParamCondition['operator'], value: Json, to: Json) =>
  matches(verdict, { param: 'to', operator, value } as ParamCondition, { to })

/** Mail to each of these recipients is delivered to boss@acme.com. */
const toBoss: Json[] = [
  'boss@acme.com',
  'Boss <boss@acme.com>',
  '<boss@acme.com>',
  '"Boss, the" <boss@acme.com>',
  'x@y.com, boss@acme.com',
  'boss@acme.com;x@y.com',
  'boss@acme.com,',
  ' boss@acme.com ',
  '\tboss@acme.com\n',
  'x@y.com,Boss<boss@acme.com>;z@y.com',
  'boss@ACME.com',
  'BOSS@acme.com',
  'Boss@Acme.Com.',
  '"boss"@acme.com',
  'boss @ acme.com',
  'mailto:boss@acme.com',
  'boss@acme。com',
  'boss@ａcme.com',
  'boss＠acme.com',
  'boss@(the)acme.com',
  'Ann <=?utf-8?q?boss=40acme.com?=>',
  ['x@y.com', 'Boss <boss@acme.com>'],
  { email: 'Boss <boss@acme.com>' },
]
/** Mail to none of these recipients is delivered to boss@acme.com. */
const toOthers: Json[] = [
  ...['bosses@acme.com', 'the.boss@acme.com', 'boss@acme.com.evil.net', 'boss@evilacme.com'],
  ...['boss <x@y.com>', 'boss at acme.com', 'x@y.com, ann@acme.com', ''],
]

describe('rules that deny or hold see each address of a text', () => {
  const operators: [ParamCondition['operator'], Json][] = [
    ['equals', 'boss@acme.com'],
    ['equals', 'Boss@ACME.com'],
    ['in', ['ceo@acme.com', 'boss@acme.com']],
    ['contains', 'boss@acme.com'],
  ]
  for (const [operator, value] of operators) {
    test.each(toBoss)(`${operator} ${JSON.stringify(value)}: %j`, (to) => {
      for (const verdict of ['deny', 'require_approval'] as const)
        expect(matchesTo(verdict, operator, value, to)).toBe(true)
    })
  }
  test.each(toBoss)('startswith `boss@`: %j', (to) => {
    expect(matchesTo('deny', 'startswith', 'boss@', to)).toBe(true)
  })
  test.each(toOthers)('but not addresses of others: %j', (to) => {
    expect(matchesTo('deny', 'equals', 'boss@acme.com', to)).toBe(false)
    expect(matchesTo('deny', 'in', ['boss@acme.com'], to)).toBe(false)
  })
})

describe('rules that allow compare the text as written', () => {
  test.each(['x@y.com, boss@acme.com', 'Boss <boss@acme.com>', 'BOSS@acme.com'])(
    'an allow rule: %j',
    (to) => {
      expect(matchesTo('allow', 'equals', 'boss@acme.com', to)).toBe(false)
    },
  )
  test('a negative operator: only a text written as listed counts as inside', () => {
    expect(matchesTo('deny', 'not_in', ['boss@acme.com'], 'boss@acme.com')).toBe(false)
    expect(matchesTo('deny', 'not_in', ['boss@acme.com'], 'x@y.com, boss@acme.com')).toBe(true)
  })
  test('text that is not an address is only compared as text', () => {
    expect(matchesTo('deny', 'equals', 'Acme', 'acme')).toBe(false)
    expect(matchesTo('deny', 'startswith', 'https://a@', 'x, a@b.com')).toBe(false)
    expect(matchesTo('deny', 'contains', 'BOSS', 'boss@acme.com')).toBe(false)
  })
})

test('an address is found whatever surrounds it, in linear time', () => {
  const noise = fc.constantFrom(' ', ',', ';', '<', '>', '"x" <', ', y@z.com,', '\n', '(', ')', ':')
  fc.assert(
    fc.property(fc.array(noise), fc.array(noise), (before, after) => {
      const text = `${before.join('')} boss@acme.com${[' ', ...after].join('')}`
      expect(addressesIn(text, new Budget())).toContain('boss@acme.com')
    }),
  )
  for (const hostile of ['@'.repeat(30_000), 'a'.repeat(60_000), '"@'.repeat(20_000), ' @'.repeat(20_000)])
    expect(() => addressesIn(hostile, new Budget())).not.toThrow(RangeError)
})

test('a rule with 1,000 parts of addresses pays for each address of the call', () => {
  const parts = Array.from({ length: 1_000 }, (_, index) => `u${index}@z`)
  const listOf = (count: number) => Array.from({ length: count }, (_, index) => `u${index}@b.com`).join(',')
  const decided = (to: string) =>
    ask([{ verdict: 'deny', params: [{ param: 'to', operator: 'contains', value: parts }] }], {
      params: { to },
    })
  expect(decided(listOf(2_000))).toMatchObject(tooLarge)
  expect(decided(listOf(100)).verdict).toBe('allow')
})

const ruleOn = (tool: string, condition: ParamCondition): StoredRule =>
  rule('r', 'deny', { tools: [tool], params: [condition] })
const stepOf = (tool: string, params: JsonObject): PlanStep => {
  return { id: 's', tool, sideEffect: 'egress', outputLabels: [], params, dependsOn: [] }
}

interface Asked {
  readonly tool: ToolName
  readonly params: JsonObject
  readonly condition: ParamCondition
}

function isDenied({ tool, params, condition }: Asked, source: CallSource = 'workflows'): boolean {
  return matches('deny', condition, params, { source, tool })
}

/** Whether the plan says that the call is certainly denied. */
function isPlannedAsDenied({ tool, params, condition }: Asked): boolean {
  return analyze([stepOf(tool, params)], [ruleOn(tool, condition)]).definitelyDenied
}

const event = { title: 't' }
const equals = (param: string, value: string | boolean | number): ParamCondition => ({ param, operator: 'equals', value }) // prettier-ignore
test.each<[ToolName, JsonObject, ParamCondition, boolean]>([
  ['calendar_create_event', event, equals('calendar', 'primary'), true],
  ['calendar_create_event', event, equals('calendar', ' primary '), true],
  ['calendar_create_event', event, equals('calendar', 'team'), false],
  ['calendar_create_event', event, equals('*', 'primary'), true],
  ['calendar_create_event', event, equals('calendar.id', 'primary'), false],
  ['calendar_create_event', event, { param: 'calendar', operator: 'in', value: ['primary'] }, true],
  ['calendar_create_event', event, { param: 'calendar', operator: 'contains', value: 'prim' }, true],
  ['calendar_create_event', event, { param: 'calendar', operator: 'startswith', value: 'prim' }, true],
  ['calendar_create_event', { ...event, calendar: null }, equals('calendar', 'primary'), true],
  ['calendar_create_event', { ...event, calendar: 'team' }, equals('calendar', 'primary'), false],
  ['calendar_create_event', event, equals('video_meeting', false), true],
  ['slack_create_channel', { name: 'c' }, equals('is_private', false), true],
  ['slack_create_channel', { name: 'c' }, equals('is_private', 'false'), false],
  ['slack_create_channel', { name: 'c', is_private: true }, equals('is_private', false), false],
  ['docs_create', { title: 't' }, equals('folder', 'root'), true],
  ['web_search', { query: 'q' }, equals('limit', 10), true],
  ['mail_send', { to: 'a@acme.com' }, equals('cc', 'primary'), false],
  // As before, the parameter is absent.
  ['calendar_create_event', event, { param: 'calendar', operator: 'exists', value: false }, true],
  ['calendar_create_event', event, { param: 'calendar', operator: 'exists', value: true }, false],
  ['calendar_create_event', event, { param: 'calendar', operator: 'not_in', value: ['primary'] }, true],
  // A list of exceptions is compared with what the call itself gives.
  ['jira_create_issue', { project: 'OPS' }, { param: '*', operator: 'not_in', value: ['OPS'] }, false],
  ['calendar_create_event', event, { param: 'calendar', operator: 'from_label', value: ['pii'] }, false],
])('%s %j, denied by %j: %s', (tool, params, condition, expected) => {
  expect(isDenied({ tool, params, condition })).toBe(expected)
  expect(isPlannedAsDenied({ tool, params, condition })).toBe(expected)
})

test('a value that is not known yet may be absent, so the default may count', () => {
  const [tool, condition] = ['calendar_create_event', equals('calendar', 'primary')] as const
  const params = { ...event, calendar: '{{input.calendar}}' }
  expect(analyze([stepOf(tool, params)], [ruleOn(tool, condition)])).toMatchObject({
    verdict: 'deny',
    definitelyDenied: false,
  })
})

describe('no default counts', () => {
  test('for a tool of agents with the name of a catalogue tool', () => {
    const asked = { tool: 'calendar_create_event', params: event, condition: equals('calendar', 'primary') } as const // prettier-ignore
    expect([isDenied(asked, 'workflows'), isDenied(asked, 'agents')]).toEqual([true, false])
  })

  test('for a rule that allows', () => {
    const allowed = (params: JsonObject) =>
      matches('allow', equals('calendar', 'primary'), params, { tool: 'calendar_create_event' })
    expect([allowed(event), allowed({ ...event, calendar: 'primary' })]).toEqual([false, true])
  })
})

/** Decides a call with one rule for each of these paths. */
const search = (paths: readonly string[], x: Json) =>
  ask(
    paths.map((param) => ({ verdict: 'deny', params: [{ param, operator: 'exists', value: true }] })),
    { params: { x } },
  )
const times = (count: number, pathOf: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => pathOf(index))

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
