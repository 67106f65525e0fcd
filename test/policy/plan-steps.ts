import type { PolicySource } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import type { Plan, PlanStep } from '../../src/policy/plan-types.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import type { ParamCondition } from '../../src/policy/operators/index.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { Verdict } from '../../src/policy/types.ts'

/* A plan that reads a document and mails it, and its analysis under given rules. */

export function rule(name: string, verdict: Verdict, more: Partial<StoredRule> = {}): StoredRule {
  return { id: `rule_${name}`, name, verdict, status: 'active', ...more }
}

export const leak = rule('leak', 'deny', { side_effects: ['egress'], labels: { any_of: ['internal'] } })

export const outside: ParamCondition = { param: 'to', operator: 'domain_not_in', value: ['acme.com'] }

export const read: PlanStep = {
  id: 'read',
  tool: 'docs_read',
  sideEffect: 'read',
  outputLabels: ['internal'],
  params: {},
  dependsOn: [],
}

export const send: PlanStep = {
  id: 'send',
  tool: 'mail_send',
  sideEffect: 'egress',
  outputLabels: [],
  params: { to: 'a@acme.com', text: '{{read}}' },
  dependsOn: ['read'],
}

export function analyze(
  steps: PlanStep[],
  rules: StoredRule[],
  more: Partial<Plan> & Partial<PolicySource> = {},
) {
  const { labelRules = [], approvalsEnabled = true, frozen, ...plan } = more
  const policy = compilePolicy({ rules, labelRules, approvalsEnabled, frozen })
  return analyzePlan(policy, { steps, inputs: {}, areInputsComplete: false, ...plan })
}

export const sent = (step: Partial<PlanStep>, rules: StoredRule[], more: Partial<Plan> = {}) =>
  analyze([read, { ...send, ...step }], rules, more).steps[1]
