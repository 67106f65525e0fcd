import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { addressesIn } from '../../src/policy/address-matcher.ts'
import { Budget } from '../../src/policy/budget.ts'
import type { ParamCondition } from '../../src/policy/condition.ts'
import { compilePolicy, decide } from '../../src/policy/decide.ts'
import type { Json, Verdict } from '../../src/policy/types.ts'

function matches(verdict: Verdict, operator: ParamCondition['operator'], value: Json, to: Json): boolean {
  return decided(operator, value, to, verdict).matchedRules.length === 1
}

function decided(operator: ParamCondition['operator'], value: Json, to: Json, verdict: Verdict = 'deny') {
  const params = [{ param: 'to', operator, value }] as ParamCondition[]
  const rule = { id: 'rule_1', name: 'rule', status: 'active' as const, verdict, params }
  const policy = compilePolicy({ rules: [rule], labelRules: [], approvalsEnabled: true })
  const call = { source: 'workflows' as const, tool: 'mail_send', sideEffect: 'egress' as const, labels: [] }
  return decide(policy, { ...call, params: { to } })
}

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
  'bosses@acme.com',
  'the.boss@acme.com',
  'boss@acme.com.evil.net',
  'boss@evilacme.com',
  'boss <x@y.com>',
  'boss at acme.com',
  'x@y.com, ann@acme.com',
  '',
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
        expect(matches(verdict, operator, value, to)).toBe(true)
    })
  }
  test.each(toBoss)('startswith `boss@`: %j', (to) => {
    expect(matches('deny', 'startswith', 'boss@', to)).toBe(true)
  })
  test.each(toOthers)('but not addresses of others: %j', (to) => {
    expect(matches('deny', 'equals', 'boss@acme.com', to)).toBe(false)
    expect(matches('deny', 'in', ['boss@acme.com'], to)).toBe(false)
  })
})

describe('rules that allow compare the text as written', () => {
  test.each(['x@y.com, boss@acme.com', 'Boss <boss@acme.com>', 'BOSS@acme.com'])(
    'an allow rule: %j',
    (to) => {
      expect(matches('allow', 'equals', 'boss@acme.com', to)).toBe(false)
    },
  )
  test('a negative operator: only a text written as listed counts as inside', () => {
    expect(matches('deny', 'not_in', ['boss@acme.com'], 'boss@acme.com')).toBe(false)
    expect(matches('deny', 'not_in', ['boss@acme.com'], 'x@y.com, boss@acme.com')).toBe(true)
  })
  test('text that is not an address is only compared as text', () => {
    expect(matches('deny', 'equals', 'Acme', 'acme')).toBe(false)
    expect(matches('deny', 'startswith', 'https://a@', 'x, a@b.com')).toBe(false)
    expect(matches('deny', 'contains', 'BOSS', 'boss@acme.com')).toBe(false)
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
  expect(decided('contains', parts, listOf(2_000))).toMatchObject({
    verdict: 'deny',
    reason: 'call too large to evaluate',
  })
  expect(decided('contains', parts, listOf(100)).verdict).toBe('allow')
})
