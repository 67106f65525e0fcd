import { beforeAll, expect, test } from '@jest/globals'
import fc from 'fast-check'
import type { Call } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import type { PlanStep } from '../../src/policy/plan-types.ts'
import { analyzePlan, type StepAnalysis } from '../../src/policy/plan.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import { type Json, type JsonObject, rank, type Verdict } from '../../src/policy/types.ts'
import { type Oracle, seedFrom } from './agree.ts'
import { aCase, placed } from './cases.ts'
import { placeOfKind, placeTexts } from './places.ts'
import { isKnownText } from './texts.ts'

/*
 * Plans by brute force: tries many values for one unknown input. An oracle decides each resulting call, and the
 * analysis of the plan must not promise anything that one of these calls contradicts.
 */

const plans = 400
const seed = seedFrom(process.env['ORACLE_SEED'])

/** For each operator and value of the generated rules, one value that satisfies it and one that does not. */
const fillings: readonly Json[] = [
  ...[
    'a@acme.com',
    'b@evil.net',
    'c@mail.acme.com',
    'x@bücher.de',
    'x@evil.s3.amazonaws.com',
    'FILE1',
    'FILE2',
  ],
  ...['hello', 'x', 'X', '', 'oh hello', 'https://acme.com/x', 'https://drive.google.com/open?id=FILE1'],
  ...['acme.com', 'https://docs.google.com/document/d/FILE1/edit'],
  ...[1, 2.5, true, null],
  ['a@acme.com', 'b@evil.net'],
  [],
  { email: 'b@evil.net', name: 'x' },
]
export const unknown = '{{input.a}}'
export const fromStep = '{{s0.output}}'

const known = fc.constantFrom<Json>('a@acme.com', 'b@evil.net', 'FILE1', 'hello', '', 1)
const param: fc.Arbitrary<Json> = fc.oneof(
  known,
  fc.constantFrom<Json>(unknown, fromStep),
  fc.tuple(known, fc.constantFrom(unknown, fromStep)),
  fc.record({ email: fc.oneof(known, fc.constant(unknown)), name: known }) as fc.Arbitrary<Json>,
)
const anyPlan = fc.record({
  of: aCase,
  params: fc.record(
    { to: fc.oneof(fc.constant<Json>(unknown), param), cc: param, body: param, list: param },
    { requiredKeys: ['to'] },
  ),
  labels: fc.subarray(['internal', 'confidential', 'untrusted', 'pii']),
  isConditional: fc.constantFrom(false, false, false, true),
  hasItems: fc.constantFrom(false, false, false, true),
  isOfOne: fc.boolean(),
})
/** In half of the plans, a parameter of the second step names a place. */
export const aPlan = anyPlan.chain(({ params, ...plan }) => {
  const [tool, param] = placeOfKind[plan.of.kind]
  const place = fc.oneof(placed(plan.of.kind), fc.constantFrom<Json>(unknown, fromStep))
  return fc.option(place, { nil: undefined, freq: 1 }).map((value) => ({
    ...plan,
    tool: value === undefined ? 'mail_send' : tool,
    params: value === undefined ? params : { ...params, [param]: value },
  }))
})
type APlan = typeof aPlan extends fc.Arbitrary<infer T> ? T : never

interface Tried {
  readonly plan: APlan
  readonly analysis: StepAnalysis
  readonly rules: readonly StoredRule[]
  /** The oracle's verdict on the step for each filling. */
  readonly verdicts: readonly Verdict[]
}

/** Checks plan analysis against an oracle that knows only concrete calls. */
export function planSuite(load: () => Promise<Oracle>): void {
  let tried: Tried[]
  beforeAll(async () => {
    const oracle = await load()
    tried = fc.sample(aPlan, { seed, numRuns: plans }).map((plan) => attempt(plan, oracle))
  })

  test(`no filling of the unknown input leaves the bounds of ${plans} plans (seed ${seed})`, () => {
    const outside = tried.filter(({ analysis, verdicts }) =>
      verdicts.some(
        (each) => rank[each] < rank[analysis.definiteVerdict] || rank[each] > rank[analysis.verdict],
      ),
    )
    expect(outside.slice(0, 2)).toEqual([])
    // Certain and uncertain analyses must both occur often, or the test proves little.
    const certain = tried.filter(({ analysis }) => analysis.certainty === 'definite').length
    expect(certain).toBeGreaterThan(plans / 10)
    expect(plans - certain).toBeGreaterThan(plans / 10)
  })

  test('where one condition decides, a step is definitely denied if and only if every filling is denied', () => {
    const simple = tried.filter(isSimple)
    for (const { plan, analysis, verdicts, rules } of simple) {
      const ranks = verdicts.map((each) => rank[each])
      const found = { least: rank[analysis.definiteVerdict], most: rank[analysis.verdict], plan, rules }
      expect(found).toEqual({ ...found, least: Math.min(...ranks), most: Math.max(...ranks) })
    }
    expect(simple.length).toBeGreaterThan(plans / 20)
    expect(simple.filter(({ analysis }) => analysis.certainty === 'possible').length).toBeGreaterThan(
      plans / 40,
    )
  })
}

/**
 * Whether one rule with one condition decides, and the parameter is either known or wholly unknown. The analysis must
 * then be exact. A condition on labels does not count, because an unknown input can bring any label.
 */
function isSimple({ plan, rules }: Tried): boolean {
  const [rule, another] = rules.filter(({ status }) => status === 'active')
  const [condition, second] = rule?.params ?? []
  if (another !== undefined || second !== undefined || condition === undefined || plan.hasItems) return false
  const value = (plan.params as Record<string, unknown>)[condition.param]
  if (rule?.labels !== undefined) return false
  return !/[.*]/.test(condition.param) && typeof value !== 'object'
}

function attempt(plan: APlan, oracle: Oracle): Tried {
  const { approvalsEnabled } = plan.of
  const rules = plan.isOfOne
    ? plan.of.rules
        .slice(0, 1)
        .map((rule) => ({ ...rule, status: 'active' as const, params: rule.params?.slice(0, 1) }))
    : plan.of.rules.slice(0, 3)
  const read: PlanStep = { ...step('s0', 'file_read', {}), outputLabels: plan.labels }
  const send: PlanStep = {
    ...step('s1', plan.tool, {
      ...plan.params,
      ...(plan.hasItems ? { to: '{{item}}' } : {}),
    }),
    dependsOn: ['s0'],
    ...(plan.hasItems ? { forEach: ['a@acme.com', unknown] } : {}),
    ...(plan.isConditional ? { when: { value: '{{input.b}}', operator: 'exists', compare: true } } : {}),
  }
  const analysis = analyzePlan(compilePolicy({ rules, labelRules: [], approvalsEnabled }), {
    steps: [read, send],
    inputs: {},
    areInputsComplete: false,
  })
  const asked = rules.flatMap(({ params = [] }) =>
    params.flatMap((condition) => condition.value as Json[] | Json),
  )
  const meeting = asked.filter((value) => typeof value !== 'string' || isKnownText(value))
  const calls = [...fillings, ...placeTexts(plan.of.kind), ...meeting].map((filling) =>
    callsOf(plan, filling),
  )
  const decide = oracle({ rules, approvalsEnabled, calls: calls.flat() })
  const verdicts = calls.map((each) =>
    each.map((call) => decide(call).effect).reduce<Verdict>((a, b) => (rank[a] >= rank[b] ? a : b), 'allow'),
  )
  // A skipped step makes no call that could be refused.
  if (plan.isConditional) verdicts.push('allow')
  return { plan, rules, analysis: analysis.steps[1] as StepAnalysis, verdicts }
}

export const step = (id: string, tool: string, params: JsonObject): PlanStep => ({
  id,
  tool,
  params,
  sideEffect: 'egress',
  outputLabels: [],
  dependsOn: [],
})

/** The calls of the second step, if the input and the output of the first step have these values. */
function callsOf({ tool, params, labels, hasItems }: APlan, filling: Json): Call[] {
  const fill = (value: Json): Json => {
    if (value === unknown || value === fromStep) return filling
    if (Array.isArray(value)) return (value as Json[]).map(fill)
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, fill(each)]))
  }
  const paramLabels = new Map<string, string[]>()
  for (const [name, value] of Object.entries(params)) {
    if (name === 'to' && hasItems) continue
    if (value === fromStep) paramLabels.set(name, labels)
    else if (Array.isArray(value) && value[1] === fromStep) paramLabels.set(`${name}.1`, labels)
  }
  const call = { source: 'workflows', tool, sideEffect: 'egress', labels, paramLabels } as const
  const items: Json[] = hasItems ? ['a@acme.com', filling] : [fill(params.to)]
  return items.map((to) => ({ ...call, params: { ...(fill(params as JsonObject) as JsonObject), to } }))
}
