import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy } from '../../src/policy/decide.ts'
import { judgeCall } from '../../src/policy/judge-call.ts'
import type { PlanStep } from '../../src/policy/plan-types.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import { compileToolAccess, type SavedAccess } from '../../src/policy/tool-access.ts'
import type { JsonObject, Label, Role, Verdict } from '../../src/policy/types.ts'
import { labels, source, value } from './arbitraries.ts'

/* A call whose values are all known gets one verdict, whether a plan, a preview or a run asks. */

const role = fc.constantFrom<Role>('member', 'admin')
const restrictions = fc.record(
  {
    read_only: fc.boolean(),
    allowed_domains: fc.constantFrom(['acme.com'], ['evil.net']),
    max_message_length: fc.constantFrom(3, 100),
  },
  { requiredKeys: [] },
)
const policy = fc.record({
  toolName: fc.constant('mail_send'),
  role: fc.option(role, { freq: 2 }),
  allowed: fc.constantFrom(null, null, true, false),
  restrictions,
})
const someAccess: fc.Arbitrary<SavedAccess> = fc.record({
  policies: fc.uniqueArray(policy, { maxLength: 2, selector: (each) => each.role }),
  overrides: fc.array(fc.record({ toolName: fc.constant('mail_send'), role, allowed: fc.boolean() }), {
    maxLength: 1,
  }),
  fallback: fc.constantFrom('allow', 'allow', 'allow', 'deny'),
})
const access = fc.oneof(
  fc.constant<SavedAccess>({ policies: [], overrides: [], fallback: 'allow' }),
  someAccess,
)
const limited = () =>
  ({
    allowed_domains: { to: 'recipients' },
    max_message_length: { body: 'message' },
  }) as const

const params = fc.record(
  { to: value, body: value, list: value },
  { requiredKeys: [] },
) as fc.Arbitrary<JsonObject>
const frozen = fc.constantFrom(...Array.from({ length: 20 }, () => null), 'why')
const own = fc.subarray(labels)

test('a known call gets the same verdict from its plan and from its run', () => {
  const seen: Record<Verdict, number> = { allow: 0, require_approval: 0, deny: 0 }
  let refusedByPolicy = 0
  fc.assert(
    fc.property(source, access, role, params, frozen, own, (rules, saved, whose, given, why, carried) => {
      const compiled = compilePolicy({ ...rules, frozen: why })
      const toolAccess = compileToolAccess(saved, limited)
      const call = { tool: 'mail_send', sideEffect: 'egress' as const, params: { ...given, from: '' } }
      // `{{read}}` is certain to carry the labels, and its value is not compared.
      const read: PlanStep = { id: 'read', tool: 't', sideEffect: 'read', params: {}, dependsOn: [], outputLabels: carried } // prettier-ignore
      const step: PlanStep = { ...call, id: 's', outputLabels: [], dependsOn: ['read'] }
      const analysis = analyzePlan(
        compilePolicy({ ...rules, labelRules: [], frozen: why }),
        { steps: [read, step], inputs: {}, areInputsComplete: true },
        (asked, budget) => toolAccess.refusal({ ...asked, role: whose }, budget),
      ).steps[1]
      const paramLabels = new Map<string, Label[]>()
      const decided = judgeCall({ compiled, toolAccess }, { ...call, source: 'workflows', labels: carried, paramLabels }, whose) // prettier-ignore
      seen[decided.verdict] += 1
      if (analysis?.blocked) refusedByPolicy += 1
      expect([analysis?.verdict, analysis?.certainty]).toEqual([decided.verdict, 'definite'])
      if (analysis?.blocked) expect(decided.reason).toBe(analysis.blocked.reason)
      const enforced = decided.matchedRules.filter((each) => !each.shadow).map((each) => each.id)
      if (why === null) expect(analysis?.rules.map((each) => each.ruleId)).toEqual(enforced)
    }),
    { numRuns: 5_000 },
  )
  for (const [verdict, count] of Object.entries(seen)) expect([verdict, count > 20]).toEqual([verdict, true])
  expect(refusedByPolicy).toBeGreaterThan(100)
})

test('limits on parameters do not apply to agents, and a block does', () => {
  const compiled = compilePolicy({ rules: [], labelRules: [], approvalsEnabled: true })
  const judged = (source: 'workflows' | 'agents', allowed: boolean | null) => {
    const policies = [
      { toolName: 'mail_send', role: null, allowed, restrictions: { allowed_domains: ['acme.com'] } },
    ]
    const toolAccess = compileToolAccess({ policies, overrides: [], fallback: 'allow' }, limited)
    const call = {
      source,
      tool: 'mail_send',
      sideEffect: 'egress' as const,
      params: { to: 'b@evil.net' },
      labels: [],
    }
    return judgeCall({ compiled, toolAccess }, call, 'member').verdict
  }
  expect([judged('workflows', null), judged('agents', null), judged('agents', false)]).toEqual([
    'deny',
    'allow',
    'deny',
  ])
})
