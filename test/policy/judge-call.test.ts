import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { addedLabels, type Call, compilePolicy } from '../../src/policy/decide.ts'
import { judgeCall } from '../../src/policy/judge-call.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import type { PlanStep } from '../../src/policy/plan-types.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import { compileToolAccess } from '../../src/policy/tool-access.ts'
import { type JsonObject, type Label, type Verdict, unionLabels } from '../../src/policy/types.ts'
import { accessTo, limitsOf, role } from './access-arbitraries.ts'
import { labels, place, source, value } from './arbitraries.ts'

/* A call whose values are all known gets one verdict, whether a plan, a preview or a run asks. */

const tools = ['mail_send', 'mail_send1', 'mail_send12', 'github_comment']
const params = fc.record(
  { to: value, body: value, list: value, repo: place },
  { requiredKeys: [] },
) as fc.Arbitrary<JsonObject>
const frozen = fc.constantFrom(...Array.from({ length: 20 }, () => null), 'why')
const own = fc.subarray(labels)

const inputLabels = fc.record({ to: own, body: own, list: own }, { requiredKeys: [] })

const fromInternal = (param: string): StoredRule => ({
  id: 'rule_from',
  name: 'from internal',
  verdict: 'require_approval',
  status: 'active',
  params: [{ param, operator: 'from_label', value: ['internal'] }],
})

test('a known call gets the same verdict from its plan and from its run', () => {
  const seen: Record<Verdict, number> = { allow: 0, require_approval: 0, deny: 0 }
  const counted = { refused: 0, labelled: 0, 'from a source': 0 }
  fc.assert(
    fc.property(
      source,
      accessTo(tools),
      fc.constantFrom(...tools),
      role,
      params,
      frozen,
      own,
      inputLabels,
      fc.option(fc.constantFrom('to', 'body', '*'), { freq: 2 }),
      (some, saved, tool, whose, inputs, why, declared, labelled, from) => {
        const rules = from === null ? some : { ...some, rules: [...some.rules, fromInternal(from)] }
        const compiled = compilePolicy({ ...rules, frozen: why })
        const toolAccess = compileToolAccess(saved, limitsOf)
        // `{{read}}` is certain to carry the labels, and its value is not compared.
        const read: PlanStep = { id: 'read', tool: 't', sideEffect: 'read', params: {}, dependsOn: [], outputLabels: declared } // prettier-ignore
        const templates = Object.fromEntries(Object.keys(inputs).map((name) => [name, `{{input.${name}}}`]))
        const step: PlanStep = { id: 's', tool, sideEffect: 'egress', params: { ...templates, from: '' }, outputLabels: [], dependsOn: ['read'] } // prettier-ignore
        const analysis = analyzePlan(
          compiled,
          {
            steps: [read, step],
            inputs,
            areInputsComplete: true,
            inputLabels: new Map(Object.entries(labelled)),
          },
          (asked, budget) => toolAccess.refusal({ ...asked, role: whose }, budget),
        ).steps[1]
        const added = addedLabels(compiled, { source: 'workflows', tool: 't', sideEffect: 'read', params: {}, labels: [] }) // prettier-ignore
        const paramLabels = new Map<string, readonly Label[]>(
          Object.entries(labelled).filter(([name]) => Object.hasOwn(inputs, name)),
        )
        const call: Call = {
          source: 'workflows',
          tool,
          sideEffect: 'egress',
          params: { ...inputs, from: '' },
          labels: unionLabels(declared, added, ...paramLabels.values()),
          paramLabels,
        }
        const decided = judgeCall({ compiled, toolAccess }, call, whose)
        seen[decided.verdict] += 1
        if (analysis?.blocked) counted.refused += 1
        if (added.length > 0) counted.labelled += 1
        expect([analysis?.verdict, analysis?.certainty]).toEqual([decided.verdict, 'definite'])
        if (analysis?.blocked) expect(decided.reason).toBe(analysis.blocked.reason)
        const enforced = decided.matchedRules.filter((each) => !each.shadow).map((each) => each.id)
        if (enforced.includes('rule_from')) counted['from a source'] += 1
        if (why === null) expect(analysis?.rules.map((each) => each.ruleId)).toEqual(enforced)
      },
    ),
    { numRuns: 5_000 },
  )
  for (const [what, count] of [...Object.entries(seen), ...Object.entries(counted)])
    expect([what, count > 20]).toEqual([what, true])
  expect(counted.refused).toBeGreaterThan(100)
})

test('limits on parameters do not apply to agents, and a block does', () => {
  const compiled = compilePolicy({ rules: [], labelRules: [], approvalsEnabled: true })
  const judged = (source: 'workflows' | 'agents', allowed: boolean | null) => {
    const policies = [
      { toolName: 'mail_send', role: null, allowed, restrictions: { allowed_domains: ['acme.com'] } },
    ]
    const toolAccess = compileToolAccess({ policies, overrides: [], fallback: 'allow' }, limitsOf)
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
