import { describe, expect, test } from '@jest/globals'
import { Budget } from '../../src/policy/budget.ts'
import type { ParamCondition } from '../../src/policy/condition.ts'
import { compilePolicy } from '../../src/policy/decide.ts'
import { explainMatches, openSources } from '../../src/policy/plan-because.ts'
import type { Plan, PlanStep } from '../../src/policy/plan-types.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import type { RuleBody, StoredLabelRule } from '../../src/policy/rule.ts'
import { TextBudget } from '../../src/policy/text-budget.ts'
import type { JsonObject } from '../../src/policy/types.ts'

const read: PlanStep = {
  id: 'read',
  tool: 'docs_read',
  sideEffect: 'read',
  outputLabels: ['internal'],
  params: { doc: '{{input.doc}}' },
  dependsOn: [],
}
const send = (params: JsonObject, more: Partial<PlanStep> = {}): PlanStep => ({
  id: 'send',
  tool: 'mail_send',
  sideEffect: 'egress',
  outputLabels: [],
  params,
  dependsOn: ['read'],
  ...more,
})

interface Given extends Partial<Plan> {
  readonly before?: Partial<PlanStep>
  readonly labelRules?: readonly StoredLabelRule[]
  readonly budget?: Budget
  readonly textBudget?: TextBudget
}

function because(
  rule: Partial<RuleBody>,
  step: PlanStep,
  { before, labelRules = [], budget = new Budget(), textBudget = new TextBudget(), ...plan }: Given = {},
) {
  const saved = { id: 'rule_1', name: 'r', verdict: 'deny' as const, status: 'active' as const, ...rule }
  const policy = compilePolicy({ rules: [saved], labelRules, approvalsEnabled: true })
  const steps = [{ ...read, ...before }, step]
  const analysis = analyzePlan(policy, { steps, inputs: {}, areInputsComplete: false, ...plan })
  const last = analysis.steps[1]
  if (last === undefined) throw new Error('there is no step')
  return explainMatches(last, last.rules, { budget, textBudget })[0]
}

const on = (param: string, operator: string, value: unknown): Partial<RuleBody> => ({
  tools: ['mail_*'],
  params: [{ param, operator, value } as ParamCondition],
})
const tail = (text: string | undefined) => text?.replace('the tool matches `mail_*` and ', '')

describe('a condition on a parameter', () => {
  test.each<[string, JsonObject, Partial<RuleBody>, string]>([
    ['that holds', { to: 'b@evil.net' }, on('to', 'domain_not_in', ['acme.com']), '`to` is outside `acme.com`'],
    ['that an input decides', { to: '{{input.to}}' }, on('to', 'domain_not_in', ['acme.com']), '`to` is outside `acme.com` if `input.to` is'],
    ['that a part of an input decides', { to: '{{ input.people[0].mail }}' }, on('to', 'equals', 'a'), '`to` is `a` if `input.people[0].mail` is'],
    ['that an output decides', { text: '{{steps.read.output.text}}' }, on('text', 'contains', 'x'), '`text` contains `x` if `steps.read.output.text` does'],
    ['on a beginning', { text: '{{read.output}}' }, on('text', 'startswith', 'x'), '`text` starts with `x` if `read.output` does'],
    ['that must not be in a list', { to: '{{input.to}}' }, on('to', 'not_in', ['a', 'b']), '`to` is not `a` or `b` if `input.to` is not'],
    ['on presence', { cc: '{{input.cc}}' }, on('cc', 'exists', true), '`cc` is there if `input.cc` is'],
    ['on absence', { cc: '{{input.cc}}' }, on('cc', 'exists', false), '`cc` is missing if `input.cc` is'],
    ['inside a text', { to: 'a@acme.com, {{input.to}}' }, on('to', 'domain_not_in', ['acme.com']), '`to` is outside `acme.com` if `input.to` makes it so'],
    ['with several unknown values', { to: ['{{input.a}}', '{{input.b}}'] }, on('to', 'equals', 'a'), '`to` is `a` if `input.a` or `input.b` makes it so'],
    ['that stands before other text', { to: '{{input.user}}@acme.com' }, on('to', 'domain_not_in', ['acme.com']), '`to` is outside `acme.com` if `input.user` makes it so'],
    ['in two parts of a text', { to: '{{input.user}}@{{ input.domain }}' }, on('to', 'domain_not_in', ['acme.com']), '`to` is outside `acme.com` if `input.user` or `input.domain` makes it so'],
    ['in many parts of a text', { text: '{{input.a}} {{input.b}} {{input.a}}{{read.output}} {{today}} {{now}}' }, on('text', 'contains', 'x'), '`text` contains `x` if `input.a`, `input.b`, `read.output` or 2 more makes it so'],
    ['of a text that holds already', { text: '{{read.output}} SECRET' }, on('text', 'contains', 'SECRET'), '`text` contains `SECRET`'],
    ['inside an unknown value', { to: '{{input.to}}' }, on('to.email', 'equals', 'a'), '`to.email` is `a` if `input.to` makes it so'],
    ['on the word `me`', { to: 'me' }, on('to', 'equals', 'a@acme.com'), '`to` is `a@acme.com` if `me` is'],
    ['on the word `me` beside other text', { to: 'me, {{input.to}}' }, on('to', 'equals', 'a@acme.com'), '`to` is `a@acme.com` if `me` or `input.to` makes it so'],
    ['on an item inside a text', { to: '{{item}}, {{input.cc}}' }, on('to', 'contains', 'a'), '`to` contains `a` if `input.a` or `input.cc` makes it so'],
    ['on a date', { text: '{{today}}' }, on('text', 'equals', '2026-01-01'), '`text` is `2026-01-01` if `today` is'],
    ['on an item', { to: '{{item}}' }, on('to', 'equals', 'a'), '`to` is `a` if `item` is, if the step runs at all: its items are those of `input.list`'],
  ])('%s', (name, params, rule, words) => {
    const items = { 'on an item': '{{input.list}}', 'on an item inside a text': ['b, {{input.a}}'] }
    const forEach = Object.hasOwn(items, name) ? items[name as keyof typeof items] : undefined
    expect(tail(because(rule, send(params, { forEach, people: ['to'] })))).toBe(words)
  }) // prettier-ignore

  test('two conditions, of which one holds', () => {
    const rule = { ...on('to', 'equals', 'a'), params: [on('to', 'equals', 'a'), on('cc', 'exists', true)].flatMap((each) => each.params ?? []) } // prettier-ignore
    expect(tail(because(rule, send({ to: '{{input.to}}', cc: 'b' })))).toBe(
      'the tool matches `mail_*`, `cc` is there and `to` is `a` if `input.to` is',
    )
  })

  test('on where the data comes from', () => {
    const from = on('text', 'from_label', ['internal'])
    const text = { to: 'x', text: '{{read.output}}' }
    expect(tail(because(from, send(text)))).toBe('`text` comes from data labelled internal')
    expect(tail(because(from, send(text), { before: { onError: 'continue' } }))).toBe(
      '`text` comes from data labelled internal if the output of `read` carries it',
    )
  })
})

describe('a condition on labels', () => {
  const labelled = { labels: { any_of: ['internal'] } }
  const step = send({ text: '{{read.output}}' })
  const secret: StoredLabelRule = {
    id: 'l',
    name: 'l',
    status: 'active',
    params: [{ param: 'doc', operator: 'equals', value: 'D' }],
    add_labels: ['secret'],
  }

  test.each<[string, Partial<RuleBody>, PlanStep, Given, string]>([
    ['that certainly reach the step', labelled, step, {}, 'the data is labelled internal'],
    ['of a step that may fail', labelled, step, { before: { onError: 'continue' } }, 'the data is labelled internal if the output of `read` is'],
    ['of a label rule that may match', { labels: { all_of: ['secret'] } }, step, { labelRules: [secret] }, 'the data is labelled secret if the output of `read` is'],
    ['that must not be there', { labels: { none_of: ['secret'] } }, step, { labelRules: [secret], inputs: { doc: 'D' }, before: { onError: 'continue' } }, 'the data is not labelled secret unless the output of `read` is'],
    ['of a remembered value', { labels: { any_of: ['pii'] } }, step, { before: { bringsOwnLabels: true }, inputs: { doc: 'D' } }, 'the data is labelled pii if the output of `read` is'],
    ['of an unknown input', { labels: { any_of: ['pii'] } }, send({ to: '{{input.to}}' }, { dependsOn: [] }), {}, 'the data is labelled pii if `input.to` is'],
  ])('%s', (_, rule, each, given, words) => {
    expect(because(rule, each, given)).toBe(words)
  }) // prettier-ignore
})

describe('whether the step runs', () => {
  const any = { match_all: true as const }
  test.each<[string, Partial<PlanStep>, string]>([
    ['an unknown `when`', { when: { value: '{{input.go}}', operator: 'equals', compare: true } }, ': its `when` depends on `input.go`'],
    ['an unknown list', { forEach: '{{read.output.rows}}' }, ': its items are those of `read.output.rows`'],
    ['both', { forEach: '{{input.list}}', when: { value: '{{item.on}}', operator: 'exists' } }, ': its items are those of `input.list` and its `when` depends on `item.on`'],
  ])('%s is named', (_, more, words) => {
    expect(because(any, send({}, more))).toBe(`it covers every call, if the step runs at all${words}`)
  }) // prettier-ignore
})

test('once its budget is used up, the clause says what the rule asks', () => {
  const rule = on('to', 'domain_not_in', ['acme.com'])
  expect(because(rule, send({ to: '{{input.to}}' }), { budget: new Budget(0) })).toBe(
    'the tool matches `mail_*` and `to` is outside `acme.com`, if a value matches that is only known during the run',
  )
})

test('steps and inputs that can bring labels which nothing declares are named', () => {
  const policy = compilePolicy({ rules: [], labelRules: [], approvalsEnabled: true })
  const open = (step: PlanStep, before: Partial<PlanStep> = {}, inputs: JsonObject = {}) =>
    analyzePlan(policy, {
      steps: [{ ...read, ...before }, step],
      inputs,
      areInputsComplete: false,
    }).steps.map(openSources)
  const step = send({ to: '{{input.to}}', text: '{{read.output}}' })
  expect(open(step)).toEqual([['input.doc'], ['read', 'input.to']])
  expect(open(step, { params: {} }, { to: 'a' })).toEqual([[], []])
  expect(open(step, { params: {}, bringsOwnLabels: true }, { to: 'a' })).toEqual([[], ['read']])
})

test('the texts that several explanations fill in count together', () => {
  const value = '{{input.known}} {{input.open}}'
  const step = send({ to: 'a' }, { when: { value, operator: 'equals', compare: 'x' } })
  const textBudget = new TextBudget(100)
  const explain = () =>
    because(on('to', 'equals', 'a'), step, { inputs: { known: 'k'.repeat(60) }, textBudget })
  expect(explain()).toContain('its `when` depends on `input.open`')
  expect(textBudget.isUsedUp).toBe(false)
  // Once the budget is used up, a known text counts as unknown.
  expect(explain()).toContain('its `when` depends on `input.known`')
  expect(textBudget.isUsedUp).toBe(true)
})
