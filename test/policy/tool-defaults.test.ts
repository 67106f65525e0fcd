import { describe, expect, test } from '@jest/globals'
import type { ParamCondition } from '../../src/policy/condition.ts'
import { compilePolicy, decide } from '../../src/policy/decide.ts'
import type { PlanStep } from '../../src/policy/plan-types.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { CatalogueName } from '../../src/policy/tool-names.ts'
import type { CallSource, JsonObject, Verdict } from '../../src/policy/types.ts'
import { analyze, rule } from './plan-steps.ts'

/* A rule that restricts compares the default of a parameter that a call leaves out. */

const ruleOn = (tool: string, condition: ParamCondition, verdict: Verdict = 'deny'): StoredRule =>
  rule('r', verdict, { tools: [tool], params: [condition] })
const stepOf = (tool: string, params: JsonObject): PlanStep => {
  return { id: 's', tool, sideEffect: 'egress', outputLabels: [], params, dependsOn: [] }
}

interface Asked {
  readonly tool: CatalogueName
  readonly params: JsonObject
  readonly condition: ParamCondition
}

function isDenied({ tool, params, condition }: Asked, source: CallSource = 'workflows'): boolean {
  const rules = [ruleOn(tool, condition)]
  const policy = compilePolicy({ rules, labelRules: [], approvalsEnabled: true })
  return decide(policy, { source, tool, sideEffect: 'egress', params, labels: [] }).verdict === 'deny'
}

/** Whether the plan says that the call is certainly denied. */
function isPlannedAsDenied({ tool, params, condition }: Asked): boolean {
  return analyze([stepOf(tool, params)], [ruleOn(tool, condition)]).definitelyDenied
}

const event = { title: 't' }
const equals = (param: string, value: string | boolean | number): ParamCondition => ({ param, operator: 'equals', value }) // prettier-ignore
const rows: readonly (readonly [CatalogueName, JsonObject, ParamCondition, boolean])[] = [
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
]

test.each(rows)('%s %j, denied by %j: %s', (tool, params, condition, expected) => {
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
    const rules = [ruleOn('calendar_create_event', equals('calendar', 'primary'), 'allow')]
    const policy = compilePolicy({ rules, labelRules: [], approvalsEnabled: true })
    const call = {
      source: 'workflows',
      tool: 'calendar_create_event',
      sideEffect: 'egress',
      labels: [],
    } as const
    expect(decide(policy, { ...call, params: event }).matchedRules).toEqual([])
    expect(decide(policy, { ...call, params: { ...event, calendar: 'primary' } }).matchedRules).toHaveLength(
      1,
    )
  })
})
