import fc from 'fast-check'
import { describe, expect, test } from '@jest/globals'
import { getTool } from '../../src/tools/index.ts'
import { decide, addedLabels, type Call, judgeCall } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import { fillInMe } from '../../src/policy/me.ts'
import type { Plan, PlanStep } from '../../src/policy/plan-types.ts'
import { analyzePlan } from '../../src/policy/plan.ts'
import type { StoredRule, StoredLabelRule } from '../../src/policy/rule.ts'
import { TemplateError, resolve, type Scope } from '../../src/policy/templates.ts'
import {
  compileToolAccess,
  type RoleOverride,
  type SavedAccess,
  type ToolPolicy,
} from '../../src/policy/tool-access.ts'
import { compileLimits, type LimitedParams } from '../../src/policy/tool-limits.ts'
import { maybe, yes, type Tri } from '../../src/policy/tri.ts'
import {
  unionLabels,
  type Role,
  type Json,
  type JsonObject,
  type Verdict,
  type Label,
} from '../../src/policy/types.ts'
import { conditionOn, place, source, labels, value, placed } from './arbitraries.ts'
import { cpuMilliseconds } from './cpu-time.ts'
import {
  actuals,
  knownPart,
  plan,
  requester,
  withKnownLabels,
  world,
  outsideOf,
  type Known,
  type World,
} from './plan-runs.ts'
import { builtinsAt } from './template-scope.ts'

/* Tool policies over the parameters of arbitraries.ts: every limit, with every reading that a plan can check. */

const role = fc.constantFrom<Role>('member', 'admin')

const restrictions = fc.record(
  {
    read_only: fc.boolean(),
    allowed_domains: fc.constantFrom(['acme.com'], ['evil.net']),
    allowed_channels: fc.constantFrom(['#hello'], ['#hello', '@me']),
    allowed_repos: fc.constantFrom(['acme/app'], ['acme/*']),
    max_message_length: fc.constantFrom(3, 100),
  },
  { requiredKeys: [] },
)

const toolPolicyOf = (tool: fc.Arbitrary<string>): fc.Arbitrary<ToolPolicy> =>
  fc.record({
    toolName: tool,
    role: fc.option(role, { freq: 2 }),
    allowed: fc.constantFrom(null, null, null, true, false),
    restrictions,
  })

const overrideOf = (tool: fc.Arbitrary<string>): fc.Arbitrary<RoleOverride> =>
  fc.record({ toolName: tool, role, allowed: fc.boolean() })

/** Policies of these tools; often none. */
function accessTo(tools: readonly string[]): fc.Arbitrary<SavedAccess> {
  const tool = fc.constantFrom(...tools)
  return fc.oneof(
    fc.constant<SavedAccess>({ policies: [], overrides: [], fallback: 'allow' }),
    fc.record({
      policies: fc.uniqueArray(toolPolicyOf(tool), {
        maxLength: 2 * tools.length,
        selector: (each) => `${each.toolName} ${each.role}`,
      }),
      overrides: fc.array(overrideOf(tool), { maxLength: 1 }),
      fallback: fc.constantFrom('allow', 'allow', 'allow', 'allow', 'deny'),
    }),
  )
}

const limits: readonly LimitedParams[] = [
  { allowed_domains: { to: 'recipients' }, max_message_length: { body: 'message' } },
  { allowed_channels: { to: 'channel' }, allowed_repos: { body: 'search' } },
  { allowed_domains: { list: 'calendar' }, allowed_repos: { to: 'repository', body: 'path' } },
]

/** The limits that a tool takes: one of the three sets, by the length of its name. */
const limitsOf = (tool: string): LimitedParams => limits[tool.length % 3] ?? {}

/** null for a call that fails before any decision, for example because a text contains an input that was not given. */
function resolvedOrNull(params: JsonObject, inputs: JsonObject): Json | null {
  const scope: Scope = { inputs, step: () => undefined, builtins: builtinsAt('2026-03-01') }
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
  ...['{{input.a}}, b@evil.net', '{{input.a}}@evil.net', '{{input.a}}b@evil.net {{input.b}}'],
  ...['{{input.a}} <b@evil.net>', '"{{input.a}}, b@evil.net', '({{input.a}} b@evil.net)'],
  ...['{{input.a}}, b@evil.net, {{input.b}}', 'b@evil.net{{input.a}}, a@acme.com'],
  ...['{{input.a}}hello', 'x{{input.a}}FILE1{{input.b}}', '{{input.a}}, me'],
  ...['{{input.a}}e, b@evil.net', 'x, m{{input.a}}e', '{{input.a}}, me, a@acme.com{{input.b}}'],
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
    const file = 'https://docs.google.com/document/d/FILE1'
    const text = fc.constantFrom('a@acme.com', 'b@evil.net', 'FILE1', file, '', 'me')
    const filling: fc.Arbitrary<Json> = fc.oneof(
      text,
      fc.constantFrom<Json>(null, [], ['b@evil.net'], {}, 1),
      fc.constantFrom(...'"\\()<me'.split(''), '"x, ', ', me', 'mailto:', 'https://acme.com/', 'a@acme.com '),
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
          const plan = { steps: [step], inputs: {}, areInputsComplete: false, requesterEmail }
          const analysis = analyzePlan(policy, plan)
          const resolved = resolvedOrNull({ to }, { a, b })
          if (resolved === null) return
          const params = fillInMe(resolved, ['to'], 'a@acme.com') as JsonObject
          const asked = { ...call, params, source: 'workflows' as const, labels: [] }
          const decided = decide(policy, { ...asked, paramLabels: new Map() })
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
          const resolved = resolvedOrNull(params, { a, b }) as JsonObject | null
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
        const asked = { source: 'workflows', tool, sideEffect: 'egress', paramLabels } as const
        const carried = unionLabels(declared, added, ...paramLabels.values())
        const call: Call = { ...asked, params: { ...inputs, from: '' }, labels: carried }
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
    const restrictions = { allowed_domains: ['acme.com'] }
    const policies = [{ toolName: 'mail_send', role: null, allowed, restrictions }]
    const toolAccess = compileToolAccess({ policies, overrides: [], fallback: 'allow' }, limitsOf)
    const call = { source, tool: 'mail_send', sideEffect: 'egress', labels: [] } as const
    return judgeCall({ compiled, toolAccess }, { ...call, params: { to: 'b@evil.net' } }, 'member').verdict
  }
  expect(judged('workflows', null)).toBe('deny')
  expect([judged('agents', null), judged('agents', false)]).toEqual(['allow', 'deny'])
})

const names = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}-${index}`)

const rules = (count: number, body: Partial<StoredRule>): StoredRule[] =>
  names('rule', count).map((id) => ({ id, name: id, verdict: 'require_approval', status: 'active', ...body }))

const labelRules = (count: number, body: Partial<StoredLabelRule> = {}): StoredLabelRule[] =>
  names('label', count).map((id) => ({ id, name: id, status: 'active', add_labels: names(id, 100), ...body }))

const overItems = (count: number, more: Partial<PlanStep> = {}): PlanStep[] =>
  names('step', count).map((id) => ({
    id,
    tool: 'memory_get',
    sideEffect: 'read',
    outputLabels: [],
    params: { key: '{{item}}' },
    forEach: '{{input.list}}',
    dependsOn: [],
    ...more,
  }))

const policyOf = (saved: StoredRule[], labelling: StoredLabelRule[] = []) =>
  compilePolicy({ rules: saved, labelRules: labelling, approvalsEnabled: true })

const analyze = (policy: ReturnType<typeof policyOf>, steps: PlanStep[]) =>
  analyzePlan(policy, { steps, inputs: { list: names('item', 100) }, areInputsComplete: true })

const fewest = (work: () => void) => Math.min(...[1, 2, 3].map(() => cpuMilliseconds(work)))

const onLabels = { labels: { none_of: names('a', 100), any_of: names('b', 100) } }
const noItem = { param: 'key', operator: 'equals', value: 'another' } as const

describe('the cost of analysing a plan', () => {
  test('rules on labels are evaluated once for a step, not for each item', () => {
    const policy = policyOf(rules(300, onLabels))
    let verdict = ''
    // Comparing 300 rules with each of 30,000 calls once took 11 seconds.
    expect(fewest(() => (verdict = analyze(policy, overItems(300)).verdict))).toBeLessThan(1_500)
    expect(verdict).toBe('allow')
  })

  test('rules on parameters are evaluated until the budget is used up; after that they only may match', () => {
    const policy = policyOf(rules(300, { params: [noItem] }))
    const { steps } = analyze(policy, overItems(300))
    expect(fewest(() => analyze(policy, overItems(300)))).toBeLessThan(3_000)
    expect(steps[0]).toMatchObject({ verdict: 'allow', rules: [] })
    expect(steps[299]).toMatchObject({ verdict: 'deny', definiteVerdict: 'allow', certainty: 'possible' })
    expect(steps[299]?.rules).toHaveLength(300)
  })

  test('label rules use the budget too, and once it is used up any label is possible', () => {
    const policy = policyOf(
      rules(1, { tools: ['mail_send'], labels: { any_of: ['secret'] } }),
      labelRules(300, { params: [noItem] }),
    )
    const steps = overItems(300)
    const last = steps.at(-1) as PlanStep
    const send: PlanStep = { ...last, id: 'send', tool: 'mail_send', dependsOn: [last.id] }
    let sent: ReturnType<typeof analyze>['steps'][number] | undefined
    expect(fewest(() => (sent = analyze(policy, [...steps, send]).steps.at(-1)))).toBeLessThan(3_000)
    expect(sent).toMatchObject({ verdict: 'deny', certainty: 'possible' })
  })

  test('labels that many rules add are not copied along a long chain of steps', () => {
    const policy = policyOf([], labelRules(500))
    const chain = names('step', 300).map((id, index) => ({
      ...(overItems(1)[0] as PlanStep),
      id,
      dependsOn: index === 0 ? [] : [`step-${index - 1}`],
    }))
    expect(fewest(() => analyze(policy, chain))).toBeLessThan(3_000)
  })

  test.each([
    ['searches', 'github_search_code', 'query', 'repo:acme/app '.repeat(18)],
    ['searches of unclosed quotes', 'github_search_code', 'query', '"\\'.repeat(2_000)],
    ['paths', 'github_get_file', 'path', '%2525/'.repeat(680)],
    ['links', 'github_get_file', 'repo', `https://github.com/acme/app/${'%2525/'.repeat(160)}`],
  ])('limits read %s until the budget is used up', (_, tool, param, text) => {
    const limits = compileLimits(getTool(tool)?.constraints ?? {}, { allowed_repos: ['acme/app'] })
    const steps = overItems(100, { tool, params: { [param]: '{{item}}' } })
    // The texts differ, so none was read before. Such a plan once kept the API busy for minutes.
    const list = names(text, 100)
    const work = () =>
      analyzePlan(
        policyOf([]),
        { steps, inputs: { list }, areInputsComplete: true },
        ({ params }, budget) => {
          const excess = limits(params, budget)
          return excess === null ? null : { reason: '', explanation: '', isCertain: excess.isCertain }
        },
      )
    expect(fewest(work)).toBeLessThan(4_000)
  })

  test.each<[string, PlanStep['when'], Tri]>([
    ['a long list', { value: '{{input.list}}', operator: 'in', compare: ['x'] }, maybe],
    ['an item in a long list', { value: '{{item}}', operator: 'in', compare: '{{input.list}}' }, yes],
  ])('`when` compares %s within the budget', (_, when, runs) => {
    const inputs = { list: names('item', 20_000) }
    const of = (steps: PlanStep[]) =>
      analyzePlan(policyOf([]), { steps, inputs, areInputsComplete: true }).steps
    const steps = overItems(300, { when })
    let found: ReturnType<typeof of> = []
    // The list was once read again for each of the 30,000 calls, which took more than 10 seconds.
    expect(fewest(() => (found = of(steps)))).toBeLessThan(4_000)
    expect(found[0]?.runs).toBe(runs)
  })

  test('once the budget is used up, a `when` may hold', () => {
    const list = names('item', 20_000)
    const when: PlanStep['when'] = { value: ['{{item}}', '{{input.list}}'], operator: 'in', compare: ['x'] }
    const steps300 = overItems(300, { when })
    const work = () =>
      analyzePlan(policyOf([]), { steps: steps300, inputs: { list }, areInputsComplete: true })
    expect(fewest(work)).toBeLessThan(4_000)
    const { steps } = work()
    expect(steps.map(({ runs }) => runs)).toEqual(Array<Tri>(300).fill(maybe))
  })

  test('100 steps under 1,000 rules are analysed completely', () => {
    const policy = policyOf(rules(1_000, { params: [noItem], labels: { any_of: ['internal'] } }))
    const steps = overItems(100, { forEach: undefined, params: { key: 'k' }, outputLabels: ['internal'] })
    const after = steps.map((step, index) => ({
      ...step,
      dependsOn: index === 0 ? [] : [`step-${index - 1}`],
    }))
    expect(analyze(policy, after).steps.at(-1)).toMatchObject({ verdict: 'allow', certainty: 'definite' })
  })
})

describe('the cost of one call', () => {
  const asked = { source: 'agents', tool: 'Bash', sideEffect: 'write', params: {} } as const
  const call: Call = { ...asked, labels: names('c', 300) }

  test('labels are compared within the budget: a call with more of them is denied', () => {
    const few = policyOf(rules(600, onLabels))
    const many = policyOf(rules(2_000, onLabels))
    expect(decide(few, call).verdict).toBe('allow')
    expect(decide(many, call)).toMatchObject({ verdict: 'deny', reason: 'call too large to evaluate' })
    // A call without labels needs no comparison.
    expect(decide(many, { ...call, labels: [] }).verdict).toBe('allow')
  })

  test('label rules that can no longer be evaluated add their labels', () => {
    const policy = policyOf([], labelRules(2_000, { ...onLabels, add_labels: ['added'] }))
    expect(addedLabels(policy, call)).toEqual(['added'])
    expect(addedLabels(policy, { ...call, labels: [] })).toEqual([])
  })
})
