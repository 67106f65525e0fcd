import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy, decide, type Call } from '../../src/policy/decide.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import { unionLabels } from '../../src/policy/types.ts'
import { decideWithoutParams } from '../../src/policy/unknown-params.ts'
import { aCase } from '../oracles/cases.ts'

const policyOf = (rules: readonly object[], approvalsEnabled = true) =>
  compilePolicy({
    rules: rules.map((rule, index) => ({ id: `r${index}`, name: `r${index}`, status: 'active', ...rule }) as StoredRule), // prettier-ignore
    labelRules: [],
    approvalsEnabled,
  })
const call: Call = {
  source: 'workflows',
  tool: 'mail_send',
  sideEffect: 'egress',
  params: {},
  labels: ['internal'],
}
const byLabel = (verdict: string) => ({ verdict, labels: { any_of: ['internal'] } })
const byParam = (verdict: string) => ({ verdict, params: [{ param: 'to', operator: 'exists', value: true }] })

test.each([
  ['no rule', [], 'allow'],
  ['a rule on labels', [byLabel('deny')], 'deny'],
  ['a rule on a parameter', [byParam('deny')], null],
  ['a rule on a parameter that allows', [byParam('allow')], 'allow'],
  ['a stricter rule on labels', [byParam('require_approval'), byLabel('deny')], 'deny'],
  ['a stricter rule on a parameter', [byLabel('require_approval'), byParam('deny')], null],
  ['a shadow rule', [{ ...byLabel('deny'), status: 'shadow' }], 'allow'],
  ['a rule for agents', [{ ...byParam('deny'), applies_to: ['agents'] }], 'allow'],
  [
    'the source of a parameter',
    [{ verdict: 'deny', params: [{ param: 'to', operator: 'from_label', value: ['internal'] }] }],
    null,
  ],
] as const)('with %s: %j is %s', (_, rules, verdict) => {
  expect(decideWithoutParams(policyOf(rules), call)?.verdict ?? null).toBe(verdict)
})

test('while approvals are off, a hold and a denial are the same verdict', () => {
  const rules = [byLabel('require_approval'), byParam('deny')]
  expect(decideWithoutParams(policyOf(rules, false), call)).toEqual({
    verdict: 'deny',
    ruleName: 'r0',
    explanation: expect.stringContaining('approvals are off'),
  })
})

test('a certain verdict is the verdict for all parameters and sources', () => {
  let certain = 0
  fc.assert(
    fc.property(aCase, ({ rules, approvalsEnabled, calls }) => {
      const policy = compilePolicy({ rules, labelRules: [], approvalsEnabled })
      for (const some of calls) {
        // In a real call, the labels of the sources of a parameter are labels of the call too.
        const each = { ...some, labels: unionLabels(some.labels, ...(some.paramLabels?.values() ?? [])) }
        const known = decideWithoutParams(policy, each)
        if (known === null) continue
        certain += 1
        expect(decide(policy, each).verdict).toBe(known.verdict)
      }
    }),
    { numRuns: 500 },
  )
  expect(certain).toBeGreaterThan(500)
})
