import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy, decide } from '../../src/policy/decide.ts'
import type { Plan } from '../../src/policy/plan-types.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import { fillInMe } from '../../src/policy/me.ts'
import { compileToolAccess } from '../../src/policy/tool-access.ts'
import { accessTo, limitsOf } from './access-arbitraries.ts'
import { conditionOn, place, placed, source } from './arbitraries.ts'
import { type Scope, TemplateError, resolve } from '../../src/policy/templates.ts'
import type { Json, JsonObject, Verdict } from '../../src/policy/types.ts'
import {
  type Known,
  type World,
  actuals,
  knownPart,
  outsideOf,
  plan,
  requester,
  withKnownLabels,
  world,
} from './plan-runs.ts'

/** null for a call that fails before any decision, for example because a text contains an input that was not given. */
function resolvedOrNull(params: JsonObject, scope: Scope): Json | null {
  try {
    return resolve(params, scope).value
  } catch (error) {
    if (error instanceof TemplateError) return null
    throw error
  }
}

const plans = 1_300

/** Texts before, between and after unknown parts, also such that an unknown part can quote them or join them. */
const aroundUnknowns = [
  '{{input.a}}, b@evil.net',
  '{{input.a}}@evil.net',
  '{{input.a}}b@evil.net {{input.b}}',
  '{{input.a}} <b@evil.net>',
  '"{{input.a}}, b@evil.net',
  '({{input.a}} b@evil.net)',
  '{{input.a}}, b@evil.net, {{input.b}}',
  'b@evil.net{{input.a}}, a@acme.com',
  '{{input.a}}hello',
  'x{{input.a}}FILE1{{input.b}}',
  '{{input.a}}, me',
  '{{input.a}}e, b@evil.net',
  'x, m{{input.a}}e',
  '{{input.a}}, me, a@acme.com{{input.b}}',
  '{{input.a}}, m{{input.b}}',
]

/** Fillings tried for each plan. */
const fillings = 40

const worlds = fc.array(world, { minLength: fillings, maxLength: fillings })

describe('the law of plan analysis', () => {
  test('every filling of the unknowns keeps the bounds of each step: its verdict, its labels, its rules and its policies', () => {
    let compared = 0
    let definite = 0
    const policies = { definite: 0, possible: 0 }
    fc.assert(
      fc.property(
        source,
        accessTo(['tool', 'mail_send', 'github_comment']),
        plan,
        worlds,
        fc.constantFrom<Known>('all inputs', 'one input', 'no input'),
        (rules, saved, steps, [first, ...others], known) => {
          const policy = compilePolicy(rules)
          const access = compileToolAccess(saved, limitsOf)
          if (first === undefined) return
          const part = knownPart(first, known)
          const analyzed: Plan = {
            ...part,
            steps,
            areInputsComplete: known === 'all inputs',
            requesterEmail: known === 'no input' ? undefined : requester,
          }
          const analysis = analyzePlan(policy, analyzed, (call, budget) =>
            access.refusal({ ...call, role: 'member' }, budget),
          )
          for (const { blocked } of analysis.steps) if (blocked !== null) policies[blocked.certainty] += 1
          const outside: string[] = []
          for (const each of [first, ...others]) {
            // Known values and labels are the same in every filling.
            const filled: World = {
              ...each,
              inputs: known === 'all inputs' ? part.inputs : { ...each.inputs, ...part.inputs },
              inputLabels: withKnownLabels(each, part, known),
            }
            for (const [step, actual] of actuals(policy, access, steps, filled, analysis.steps)) {
              compared += 1
              if (step.certainty === 'definite') definite += 1
              outside.push(...outsideOf(step, actual))
            }
          }
          expect(outside).toEqual([])
        },
      ),
      { numRuns: plans },
    )
    // Some runs end with an error before their last step, so fewer of their steps are compared.
    expect(compared).toBeGreaterThan(plans * fillings)
    expect(definite).toBeGreaterThan(compared / 10)
    for (const [how, count] of Object.entries(policies)) expect([how, count > 100]).toEqual([how, true])
  })

  test('the same for one condition over a parameter in which every kind of place is unknown', () => {
    const text = fc.constantFrom(
      'a@acme.com',
      'b@evil.net',
      'FILE1',
      'https://docs.google.com/document/d/FILE1',
      '',
      'me',
    )
    const filling: fc.Arbitrary<Json> = fc.oneof(
      text,
      fc.constantFrom<Json>(null, [], ['b@evil.net'], {}, 1),
      fc.constantFrom(
        '"',
        '\\',
        '"x, ',
        '(',
        ')',
        '<',
        'm',
        'e',
        ', me',
        'mailto:',
        'https://acme.com/',
        'a@acme.com ',
      ),
    )
    const unknown = fc.constantFrom<Json>(
      '{{input.a}}',
      '{{input.b}}',
      'hello {{input.a}}',
      'FIL{{input.a}}',
      'https://docs.google.com/document/d/{{input.a}}',
      'https://evil.net/{{input.a}}',
      'https://acme.com/{{input.b}}',
      'a@acme.com{{input.a}}',
      '{{input.a}}{{input.b}}',
      'me{{input.a}}',
      'me,{{input.b}}',
      '{{input.a}}, me',
      '{{"b@evil.net"}}',
      "{{'b@evil.net'}}, {{input.a}}",
      '{{"a@acme"}}.com{{input.a}}',
      "{{''}}{{input.b}}",
      ...aroundUnknowns,
    )
    const either = fc.oneof(unknown, text)
    const to: fc.Arbitrary<Json> = fc.oneof(
      unknown,
      fc.array(either, { maxLength: 2 }),
      fc.record({ email: either, address: either, name: either }, { requiredKeys: [] }) as fc.Arbitrary<Json>,
    )
    const one = conditionOn(fc.constantFrom('to', 'to', 'to.email', 'to.0', '*'), text)
    fc.assert(
      fc.property(
        one,
        fc.constantFrom<Verdict>('allow', 'deny'),
        to,
        filling,
        filling,
        fc.constantFrom(undefined, 'a@acme.com'),
        (one, verdict, to, a, b, requesterEmail) => {
          const rule = { id: 'rule_1', name: 'one', status: 'active' as const, verdict, params: [one] }
          const policy = compilePolicy({ rules: [rule], labelRules: [], approvalsEnabled: true })
          const call = { tool: 't', sideEffect: 'egress' as const, params: { to } }
          const step = { ...call, id: 's', outputLabels: [], dependsOn: [], people: ['to'] }
          const analysis = analyzePlan(policy, {
            steps: [step],
            inputs: {},
            areInputsComplete: false,
            requesterEmail,
          })
          const scope = { inputs: { a, b }, step: () => undefined, today: 'T', yesterday: 'Y', now: 'N' }
          const resolved = resolvedOrNull({ to }, scope)
          if (resolved === null) return
          const params = fillInMe(resolved, ['to'], 'a@acme.com') as JsonObject
          const decided = decide(policy, {
            ...call,
            params,
            source: 'workflows',
            labels: [],
            paramLabels: new Map(),
          })
          const certainties = analysis.steps[0]?.rules.map((each) => each.certainty) ?? []
          if (decided.ruleId === null) expect(certainties).not.toContain('definite')
          else expect(certainties).toHaveLength(1)
        },
      ),
      { numRuns: 20_000 },
    )
  })

  test('the same for a parameter that names a place', () => {
    const calls = fc.constantFrom(
      ['github_comment', 'repo'],
      ['slack_send_message', 'channel'],
      ['jira_comment', 'issue'],
      ['trello_comment', 'card'],
      ['docs_read', 'document'],
      ['mail_send', 'to'],
    )
    const text = fc.oneof(place, fc.constantFrom('x', '/issues/1', '../y', '', 'FILE1'))
    const filling: fc.Arbitrary<Json> = fc.oneof(text, fc.constantFrom<Json>(null, 1, ['acme/x']))
    const start = fc.oneof(
      place,
      fc.constantFrom('', 'acme/', 'Acme/', 'https://', 'https://github.com/', '#'),
    )
    const template = fc.tuple(start, fc.constantFrom('', '{{input.a}}', '{{input.a}}{{input.b}}'), text)
    const on = fc.constantFrom(...placed, 'to', 'number', '*')
    const condition = conditionOn(on, fc.oneof(place, fc.constantFrom('acme/', 'OPS-', '#', 'FILE1')))
    let definite = 0
    fc.assert(
      fc.property(
        calls,
        condition,
        fc.constantFrom<Verdict>('allow', 'deny'),
        template,
        filling,
        filling,
        ([tool, param], one, verdict, [before, unknown, after], a, b) => {
          const rule = { id: 'rule_1', name: 'one', status: 'active' as const, verdict, params: [one] }
          const policy = compilePolicy({ rules: [rule], labelRules: [], approvalsEnabled: true })
          const call = { tool: tool ?? '', sideEffect: 'egress' as const }
          const params = { [param ?? '']: before + unknown + after }
          const { steps } = analyzePlan(policy, {
            steps: [{ ...call, params, id: 's', outputLabels: [], dependsOn: [] }],
            inputs: {},
            areInputsComplete: false,
          })
          const scope = { inputs: { a, b }, step: () => undefined, today: 'T', yesterday: 'Y', now: 'N' }
          const resolved = resolvedOrNull(params, scope) as JsonObject | null
          if (resolved === null) return
          const asked = { ...call, params: resolved, source: 'workflows' as const, labels: [] }
          const decided = decide(policy, { ...asked, paramLabels: new Map() })
          const certainties = steps[0]?.rules.map((each) => each.certainty) ?? []
          if (certainties.includes('definite')) definite += 1
          if (decided.ruleId === null) expect(certainties).not.toContain('definite')
          else expect(certainties).toHaveLength(1)
        },
      ),
      { numRuns: 20_000 },
    )
    expect(definite).toBeGreaterThan(1_000)
  })
})
