import { expect } from '@jest/globals'
import { type Call, compilePolicy, type Decided, decide } from '../../src/policy/decide.ts'
import { readAs } from '../../src/policy/issues.ts'
import { labelRuleInput, ruleInput } from '../../src/policy/rule.ts'
import type { Json, JsonObject, Verdict } from '../../src/policy/types.ts'

export const call = { source: 'workflows', tool: 'mail_send', sideEffect: 'egress', labels: [] } as const
export const restrictive = ['deny', 'require_approval'] as const

/** Decides a call with rules of these bodies. */
export function ask(bodies: readonly object[], given: Partial<Call> = {}, approvalsEnabled = true): Decided {
  const rules = bodies.map((body, index) => ({
    ...ruleInput.parse({ name: `rule ${index}`, ...body }),
    id: `rule_${index}`,
  }))
  return decide(compilePolicy({ rules, labelRules: [], approvalsEnabled }), { ...call, params: {}, ...given })
}

/** Whether a rule with this one condition matches. */
export function holds(
  verdict: Verdict,
  operator: string,
  value: unknown,
  params: JsonObject,
  given: Partial<Call> = {},
) {
  const rule = { verdict, params: [{ param: 'p', operator, value }] }
  return ask([rule], { params, ...given }).matchedRules.length === 1
}

/** Whether the condition matches in a rule that restricts, and in a rule that allows. */
export const both = (operator: string, value: unknown, params: JsonObject): [boolean, boolean] => {
  expect(holds('require_approval', operator, value, params)).toBe(holds('deny', operator, value, params))
  return [holds('deny', operator, value, params), holds('allow', operator, value, params)]
}
export const p = (value: Json): JsonObject => ({ p: value })
/** The issues of a rule's body. */
export const issues = (body: object, schema: typeof ruleInput | typeof labelRuleInput = ruleInput) => {
  const read = readAs<unknown>(schema, body)
  return read.ok ? [] : read.issues
}
