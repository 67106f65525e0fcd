import { describe, expect, test } from '@jest/globals'
import type { ParamCondition } from '../../src/policy/condition.ts'
import { type Call, compilePolicy, decide } from '../../src/policy/decide.ts'
import type { JsonObject, Verdict } from '../../src/policy/types.ts'

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

type Row = [ParamCondition['operator'], unknown, JsonObject, boolean, boolean]
const link = 'https://docs.google.com/document/d/FILE1/edit'

/** Operator, value, parameters, whether a restrictive rule matches, whether an allowing one does. */
const rows: Row[] = [
  ['equals', 'x', { p: 'x' }, true, true],
  ['equals', 'x', { p: 'X' }, false, false],
  ['equals', 1, { p: 1 }, true, true],
  ['equals', 1, { p: '1' }, false, false],
  ['equals', '1', { p: 1 }, false, false],
  ['equals', true, { p: true }, true, true],
  ['equals', 'FILE1', { p: link }, true, true],
  ['equals', link, { p: 'FILE1' }, true, true],
  ['equals', 'x', { p: ['x', 'y'] }, true, false],
  ['equals', 'x', { p: { a: ['x'], b: 'y' } }, true, false],
  ['equals', 'x', { p: [] }, false, false],
  ['equals', 'x', {}, false, false],
  ['in', ['x', 2], { p: 2 }, true, true],
  ['in', ['x', 'FILE1'], { p: link }, true, true],
  ['in', ['x'], { p: ['x', 'y'] }, true, false],
  ['in', ['x'], {}, false, false],
  ['not_in', ['x'], { p: 'y' }, true, true],
  ['not_in', ['x'], { p: 'x' }, false, false],
  ['not_in', ['x'], { p: ['x', 'y'] }, true, false],
  ['not_in', ['x'], {}, true, false],
  ['not_in', ['x'], { p: null }, true, false],
  ['not_in', ['x'], { p: [] }, true, false],
  ['not_in', ['FILE1'], { p: link }, false, false],
  ['contains', 'ell', { p: 'hello' }, true, true],
  ['contains', 'ELL', { p: 'hello' }, false, false],
  ['contains', 'ell', { p: ['hello'] }, false, false],
  ['contains', 'hello', { p: ['hello', 'x'] }, true, false],
  ['contains', 1, { p: [1] }, true, true],
  ['contains', 'FILE1', { p: `see ${link}` }, true, true],
  ['contains', link, { p: 'id FILE1' }, true, true],
  ['contains', ['x', 'ell'], { p: 'hello' }, true, true],
  ['contains', ['x', 'y'], { p: 'hello' }, false, false],
  ['contains', ['x', 'hello'], { p: ['hello', 'z'] }, true, false],
  ['contains', ['hello', 'z'], { p: ['hello', 'z'] }, true, true],
  ['contains', ['x', 1], { p: 1 }, true, true],
  ['contains', 'x', {}, false, false],
  ['startswith', 'he', { p: 'hello' }, true, true],
  ['startswith', 'he', { p: 'oh hello' }, false, false],
  ['startswith', 'he', { p: ['hello', 'x'] }, true, false],
  ['startswith', link, { p: 'FILE1' }, true, true],
  ['startswith', '1', { p: 1 }, false, false],
  ['domain_not_in', ['acme.com'], { p: '"https://acme.com/a, b" <x@evil.net>' }, true, false],
  ['domain_not_in', ['acme.com'], { p: '"https://acme.com/a, b" <x@acme.com>' }, false, false],
  ['domain_not_in', ['acme.com'], { p: '//x@acme.com,me' }, true, false],
  ['domain_in', ['countersign.test'], { p: '//acme.com/ <admin@countersign.test>' }, true, false],
  ['domain_in', ['acme.com'], { p: 'a@acme.com' }, true, true],
  ['domain_in', ['acme.com'], { p: 'a@mail.ACME.com.' }, true, true],
  ['domain_in', ['acme.com'], { p: 'a@evilacme.com' }, false, false],
  ['domain_in', ['acme.com'], { p: 'a@acme.com, b@evil.net' }, true, false],
  ['domain_in', ['acme.com'], { p: 'me' }, false, false],
  ['domain_in', ['acme.com'], {}, false, false],
  ['domain_in', ['bücher.de'], { p: 'a@xn--bcher-kva.de' }, true, true],
  ['domain_in', ['amazonaws.com'], { p: 'https://evil.s3.amazonaws.com/' }, true, false],
  ['domain_not_in', ['acme.com'], { p: 'a@acme.com' }, false, false],
  ['domain_not_in', ['acme.com'], { p: 'a@evil.net' }, true, true],
  ['domain_not_in', ['acme.com'], { p: ['a@acme.com', 'Bob <b@evil.net>'] }, true, false],
  ['domain_not_in', ['acme.com'], { p: 'me' }, true, true],
  ['domain_not_in', ['acme.com'], { p: 7 }, true, true],
  ['domain_not_in', ['acme.com'], { p: '' }, true, false],
  ['domain_not_in', ['acme.com'], {}, true, false],
  ['domain_not_in', ['acme.com'], { p: { email: 'a@acme.com', name: 'Ann' } }, false, false],
  ['domain_not_in', ['acme.com'], { p: { email: 'a@acme.com', name: 'b@evil.net' } }, true, false],
  ['domain_not_in', ['acme.com'], { p: [{ email: 'b@evil.net' }] }, true, true],
  ['domain_not_in', ['amazonaws.com'], { p: 'https://evil.s3.amazonaws.com/' }, true, false],
  ['exists', true, { p: 'x' }, true, true],
  ['exists', true, { p: 0 }, true, true],
  ['exists', true, { p: [] }, false, false],
  ['exists', true, { p: '' }, false, false],
  ['exists', true, { p: null }, false, false],
  ['exists', false, {}, true, true],
  ['exists', false, { p: 'x' }, false, false],
]

describe('operators under the quantifier law', () => {
  test.each(rows)('%s %j on %j: restricts %s, allows %s', (operator, value, params, restricts, allows) => {
    const condition = { param: 'p', operator, value } as ParamCondition
    expect(matches('deny', condition, params)).toBe(restricts)
    expect(matches('require_approval', condition, params)).toBe(restricts)
    expect(matches('allow', condition, params)).toBe(allows)
  })
})

describe('paths', () => {
  const outside = (param: string): ParamCondition => ({
    param,
    operator: 'domain_not_in',
    value: ['acme.com'],
  })
  const is = (param: string): ParamCondition => ({ param, operator: 'equals', value: 'x' })

  test.each<[string, JsonObject, boolean]>([
    ['a.b', { a: { b: 'x' } }, true],
    ['a.b', { 'a.b': 'x' }, true],
    ['a.1', { a: ['y', 'x'] }, true],
    ['a.0', { a: ['y', 'x'] }, false],
    ['a.b', { a: [{ b: 'y' }, { b: 'x' }] }, true],
    ['a.*.b', { a: { q: { b: 'x' } } }, true],
    ['*', { q: { deep: ['x'] } }, true],
    ['*', {}, false],
    ['constructor', {}, false],
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
    expect(matches('deny', outside('guests.email'), params)).toBe(true)
    expect(
      matches('allow', { param: 'guests.email', operator: 'domain_in', value: ['acme.com'] }, params),
    ).toBe(false)
    expect(matches('deny', { param: 'guests.email', operator: 'exists', value: false }, params)).toBe(true)
    expect(matches('deny', { param: 'guests.email', operator: 'exists', value: true }, params)).toBe(true)
    expect(matches('allow', { param: 'guests.email', operator: 'exists', value: true }, params)).toBe(false)
    expect(matches('allow', { param: 'guests.email', operator: 'exists', value: false }, params)).toBe(false)
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
