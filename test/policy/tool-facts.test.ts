import { describe, expect, test } from '@jest/globals'
import { decide, compilePolicy } from '../../src/policy/decide.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import { analyzeRules } from '../../src/policy/rule-analysis.ts'
import { findChanges, type Change } from '../../src/policy/rule-diff.ts'
import { ruleSchemas } from '../../src/policy/rule.ts'
import { Steps, type JsonObject } from '../../src/policy/types.ts'
import { ToolFacts } from '../../src/policy/tool-facts.ts'

/* The policy knows no tool by itself. Here it gets made-up tools, and nothing else. */

const facts = new ToolFacts([
  {
    name: 'boat_sail',
    sideEffect: 'write',
    params: ['harbour', 'crew', 'cargo', 'knots'],
    several: ['crew'],
    people: ['crew'],
    places: { harbour: 'channel' },
    defaults: { knots: 5 },
  },
  { name: 'dock_look', sideEffect: 'read', params: ['repo', 'number'], several: [], linked: ['number'] },
])
const { ruleInput, labelRuleInput } = ruleSchemas(facts)
const given = { name: 'r', verdict: 'deny', tools: ['boat_sail'] }
const body = (param: string, operator: string, value: unknown, tool = 'boat_sail') =>
  ({ ...given, tools: [tool], params: [{ param, operator, value }] }) as const
const rule = (fields: object, id = 'r') => ({ ...ruleInput.parse(fields), id })
const policyOf = (...rules: ReturnType<typeof rule>[]) =>
  compilePolicy(facts, { rules, labelRules: [], approvalsEnabled: true })
const verdictOf = (fields: object, params: JsonObject, tool = 'boat_sail') =>
  decide(policyOf(rule(fields)), { source: 'workflows', tool, sideEffect: 'write', params, labels: [] })
    .verdict

describe('a rule on made-up tools', () => {
  test('may name these tools, and no tool of the real catalogue', () => {
    expect(ruleInput.safeParse(given).error).toBeUndefined()
    const issuesOf = (...tools: string[]) =>
      [ruleInput.safeParse({ ...given, tools }), labelRuleInput.safeParse({ name: 'r', tools, add_labels: ['a'] })].map(
        ({ error }) => error?.issues[0]?.message,
      ) // prettier-ignore
    for (const message of issuesOf('mail_send')) expect(message).toContain('there is no tool `mail_send`')
    for (const message of issuesOf('sail_boat')) expect(message).toContain('did you mean `boat_sail`')
    for (const message of issuesOf('mail_*')) expect(message).toContain('matches no tool')
    expect(facts.names.settingIssue('BoatSail')).toContain('did you mean `boat_sail`')
  })

  test.each([
    ['a parameter of another tool', body('to', 'equals', 'a'), 'has no parameter `to`'],
    ['a misspelt parameter', body('harbor', 'equals', 'a'), 'did you mean `harbour`'],
    ['the word `me`', body('crew', 'equals', 'me'), 'never the word'],
    ['no place', body('harbour', 'equals', 'a*b c'), 'cannot be a value of `harbour`'],
    ['a side effect', { ...given, side_effects: ['read'], applies_to: ['workflows'] }, '`boat_sail` is `write`'],
  ])('%s: refused', (_, fields, message) => {
    expect(ruleInput.safeParse(fields).error?.issues[0]?.message).toContain(message)
  }) // prettier-ignore

  test('two values of one parameter contradict each other, unless it can hold several', () => {
    const two = (param: string) => ({
      ...given,
      params: ['a', 'b'].map((value) => ({ param, operator: 'equals', value })),
    })
    expect(ruleInput.safeParse(two('cargo')).success).toBe(false)
    expect(ruleInput.safeParse(two('crew')).success).toBe(true)
  })

  test('compares places, defaults and what a link gives', () => {
    const port = { harbour: '#Port' }
    expect(verdictOf(body('harbour', 'equals', 'port'), port)).toBe('deny')
    expect(verdictOf(body('cargo', 'equals', 'port'), { cargo: '#Port' })).toBe('allow')
    expect(verdictOf(body('knots', 'equals', 5), {})).toBe('deny')
    const repo = 'https://github.com/acme/app/issues/7'
    expect(verdictOf(body('number', 'equals', 7, 'dock_look'), { repo }, 'dock_look')).toBe('deny')
    const { definitelyDenied } = analyzePlan(policyOf(rule(body('harbour', 'equals', 'port'))), {
      steps: [{ id: 's', tool: 'boat_sail', sideEffect: 'write', outputLabels: [], params: port, dependsOn: [] }],
      inputs: {},
      areInputsComplete: true,
    }) // prettier-ignore
    expect(definitelyDenied).toBe(true)
  })
})

test('examples are calls of these tools', () => {
  const tools = { facts, effectsOf: () => ['write'] as const }
  const workflows = { side_effects: ['write'], applies_to: ['workflows'] }
  const narrow = rule({ ...body('crew', 'domain_in', ['acme.com']), ...workflows }, 'narrow')
  const wide = rule({ name: 'w', verdict: 'deny', ...workflows }, 'wide')
  const found = [...analyzeRules([wide, narrow], new Steps(Infinity), tools)].filter((each) => each !== null)
  expect(found).toMatchObject([
    { kind: 'never_decides', example: { source: 'workflows', tool: 'boat_sail', params: {} } },
  ])
  const changes = new Map<string, Change>()
  const sets = { from: [], to: [narrow], approvalsEnabled: true, ...tools }
  for (const _ of findChanges(sets, changes));
  expect([...changes.values()].map(({ example }) => example)).toMatchObject([
    { tool: 'boat_sail', params: { crew: 'someone@acme.com' } },
  ])
})
