import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { getTool } from '../../src/catalog/index.ts'
import { compilePolicy } from '../../src/policy/decide.ts'
import type { ParamCondition } from '../../src/policy/condition.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import { type Restrictions, compileLimits } from '../../src/policy/tool-limits.ts'
import type { Json } from '../../src/policy/types.ts'
import { outside, rule, send, sent } from './plan-steps.ts'

/* What a plan knows from the text before, between and after unknown parts. */

const on = (param: string, operator: string, value: unknown) =>
  [rule('no', 'deny', { params: [{ param, operator, value } as ParamCondition] })] as const

const secret = on('text', 'contains', 'SECRET')
const others = on('to', 'not_in', ['a@acme.com', 'b@acme.com'])
const away = on('to', 'domain_not_in', ['acme.com'])

describe('a rule that denies every filling denies for certain', () => {
  test.each<[string, readonly ReturnType<typeof rule>[], { to?: Json; text?: Json }]>([
    ['a word before', secret, { text: 'SECRET {{read}}' }],
    ['a word after', secret, { text: '{{read}} SECRET' }],
    ['a word between', secret, { text: '{{read}} SECRET {{input.a}}' }],
    ['a word of known parts', secret, { text: '{{read}}{{"SEC"}}RET' }],
    ['one word of several', on('text', 'contains', ['x', 'SECRET']), { text: '{{read}} SECRET' }],
    ['a word in an object', secret, { text: { a: '{{read}} SECRET' } }],
    ['an address', on('to', 'contains', '@evil.net'), { to: '{{input.a}}@evil.net' }],
    ['an end that no listed text has', others, { to: '{{input.a}}@evil.net' }],
    ['a recipient before', away, { to: 'b@evil.net, {{input.a}}' }],
    ['a recipient after', away, { to: '{{input.a}}, b@evil.net' }],
    ['a recipient between', away, { to: '{{input.a}}; b@evil.net; {{input.b}}' }],
    ['a host', away, { to: '{{input.a}}@evil.net' }],
    ['an address behind a name', away, { to: '{{input.a}} <b@evil.net>' }],
    ['a recipient of a list', away, { to: ['a@acme.com', '{{input.a}}, b@evil.net'] }],
    ['a recipient behind `me`', away, { to: '{{input.a}}, me, b@evil.net' }],
    ['presence', on('text', 'exists', true), { text: '{{read}}.' }],
  ])('%s', (_, rules, params) => {
    expect(sent({ params, people: ['to'] }, [...rules])).toMatchObject({
      verdict: 'deny',
      certainty: 'definite',
    })
  })
})

describe('a rule that allows some filling denies only possibly', () => {
  test.each<[string, readonly ReturnType<typeof rule>[], { to?: Json; text?: Json }]>([
    ['another case', secret, { text: '{{read}} secret' }],
    ['a word that an unknown part completes', secret, { text: '{{read}} SECRE{{input.a}}' }],
    ['a word in a list, where `contains` means equality', secret, { text: ['{{read}} SECRET'] }],
    ['an end that a listed text has', others, { to: '{{input.a}}@acme.com' }],
    ['a recipient inside', away, { to: '{{input.a}}@acme.com' }],
    ['a host that goes on', away, { to: 'b@evil.net{{input.a}}' }],
    ['a host that goes on after a dot', away, { to: 'b@evil.net.{{input.a}}' }],
    ['an end of a host', away, { to: '{{input.a}}evil.net' }],
    ['a text that can become `me`', on('to', 'contains', 'e'), { to: 'm{{input.a}}e' }],
  ])('%s', (_, rules, params) => {
    expect(sent({ params, people: ['to'] }, [...rules])).toMatchObject({
      verdict: 'deny',
      certainty: 'possible',
    })
  })
})

test('a rule that allows stays possible while a part of the text is unknown', () => {
  const rules = [rule('yes', 'allow', { params: [{ param: 'text', operator: 'contains', value: 'OK' }] })]
  expect(sent({ params: { text: '{{read}} OK' } }, rules)?.rules).toMatchObject([{ certainty: 'possible' }])
})

test('`equals` is not possible if the known text differs', () => {
  const rules = [...on('text', 'equals', 'hello!')]
  expect(sent({ params: { text: '{{read}}world' } }, rules)).toMatchObject({ verdict: 'allow', rules: [] })
  expect(sent({ params: { text: 'he{{read}}l{{read}}lo!' } }, rules)).toMatchObject({ verdict: 'deny' })
  expect(sent({ params: { text: 'hel{{read}}llo!' } }, rules)).toMatchObject({ verdict: 'allow' })
})

describe('limits of tool policies', () => {
  const blocked = (tool: string, limits: Restrictions, params: { [param: string]: string }) => {
    const check = compileLimits(getTool(tool)?.constraints ?? {}, limits)
    const policy = compilePolicy({ rules: [], labelRules: [], approvalsEnabled: true })
    const steps = [{ ...send, tool, params, dependsOn: [] }]
    const { steps: analysed } = analyzePlan(
      policy,
      { steps, inputs: {}, areInputsComplete: false },
      (call, budget) => {
        const excess = check(call.params, budget)
        return excess === null ? null : { reason: 'limit', explanation: '', isCertain: excess.isCertain }
      },
    )
    return analysed[0]?.blocked?.certainty ?? null
  }

  test.each<[string, number, string | null]>([
    ['{{input.a}}', 200, 'definite'],
    ['{{input.a}}', 100, 'possible'],
    ['{{input.a}}{{input.b}}x', 100, 'definite'],
  ])('a message of `%s` and %d known characters: %j', (text, length, certainty) => {
    const params = { channel: '#ops', text: text + 'x'.repeat(length) }
    expect(blocked('slack_send_message', { max_message_length: 100 }, params)).toBe(certainty)
  })

  test.each([
    ['{{input.a}}, b@evil.net', 'definite'],
    ['b@evil.net, {{input.a}}', 'definite'],
    ['{{input.a}}, b@acme.com', 'possible'],
  ])('the recipients `%s`: %s', (to, certainty) => {
    expect(blocked('mail_send', { allowed_domains: ['acme.com'] }, { to })).toBe(certainty)
  })
})

test('any text around unknown parts is enough for `contains`, the length and recipients that stand in it', () => {
  const literal = fc.stringMatching(/^[a-z "'(),;<>@.\\]{0,12}$/)
  const shape = fc.tuple(
    literal,
    fc.constantFrom('', '{{input.a}}'),
    literal,
    fc.constantFrom('{{input.b}}', ''),
    literal,
  )
  fc.assert(
    fc.property(shape, fc.nat(2), (parts, place) => {
      const around = [...parts]
      around[2 * place] = `${parts[2 * place] ?? ''}, SECRET@evil.net, `
      const text = around.join('')
      const found = (rules: readonly ReturnType<typeof rule>[], params: { [param: string]: string }) =>
        sent({ params, people: ['to'] }, [...rules], { requesterEmail: 'c@acme.com' })?.certainty
      expect([text, found(secret, { text })]).toEqual([text, 'definite'])
      expect([text, found([rule('out', 'deny', { params: [outside] })], { to: text })]).toEqual([
        text,
        'definite',
      ])
    }),
    { numRuns: 3_000 },
  )
})
