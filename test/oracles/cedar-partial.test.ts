import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { compilePolicy } from '../../src/policy/decide.ts'
import { analyzePlan, type StepAnalysis } from '../../src/policy/plan.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import { references } from '../../src/policy/template-syntax.ts'
import { type Json, type JsonObject, type Label, rank } from '../../src/policy/types.ts'
import { seedFrom } from './agree.ts'
import { cedarBounds, type Bounds, type PlannedCall } from './cedar-partial.ts'
import { aPlan, fromStep, step, unknown } from './plan-suite.ts'

/*
 * Cedar's partial evaluation is a second opinion on a plan's verdicts. Partial evaluation speaks about one call whose
 * parameters or labels are unknown (docs/decisions/0112).
 */

const plans = 1_000
const seed = seedFrom(process.env['ORACLE_SEED'])

/** The second step of a plan, as a call for Cedar. */
function plannedCall(tool: string, params: JsonObject, labels: readonly Label[]): PlannedCall {
  const templates = (value: Json) => references(value).map(({ kind }) => kind)
  const open = Object.entries(params).filter(([, value]) => templates(value).length > 0)
  const paramLabels = new Map<string, readonly Label[]>()
  for (const [name, value] of open) {
    if (value === fromStep) paramLabels.set(name, labels)
    else if (Array.isArray(value) && value[1] === fromStep) paramLabels.set(`${name}.1`, labels)
  }
  const kinds = templates(params)
  return {
    call: {
      source: 'workflows',
      tool,
      sideEffect: 'egress',
      // An unknown parameter can have any value. Cedar does not see this null.
      params: { ...params, ...Object.fromEntries(open.map(([name]) => [name, null])) },
      labels: kinds.includes('step') ? labels : [],
      paramLabels,
    },
    unknown: new Set(open.map(([name]) => name)),
    areLabelsOpen: kinds.includes('input'),
  }
}

interface Asked {
  readonly rules: readonly StoredRule[]
  readonly params: JsonObject
  readonly analysis: StepAnalysis
  readonly cedar: Bounds
}

type Rules = readonly StoredRule[]

/** @param seen chooses the rules for our analysis; it plants a mistake if it changes or leaves out a rule */
function ask(count: number, seen: (rules: Rules) => Rules = (rules) => rules): Asked[] {
  return fc.sample(aPlan, { seed, numRuns: count }).map(({ of, tool, params: given, labels, isOfOne }) => {
    const rules = isOfOne ? of.rules.slice(0, 1) : of.rules.slice(0, 3)
    const params = given as JsonObject
    const steps = [
      { ...step('s0', 'file_read', {}), outputLabels: labels },
      {
        ...step('s1', tool, params),
        dependsOn: references(params).some(({ kind }) => kind === 'step') ? ['s0'] : [],
      },
    ]
    const policy = compilePolicy({
      rules: seen(rules),
      labelRules: [],
      approvalsEnabled: of.approvalsEnabled,
    })
    const { steps: analysed } = analyzePlan(policy, { steps, inputs: {}, areInputsComplete: false })
    const cedar = cedarBounds(rules, of.approvalsEnabled, plannedCall(tool, params, labels))
    return { rules, params, analysis: analysed[1] as StepAnalysis, cedar }
  })
}

const isWithin = ({ analysis, cedar }: Asked): boolean =>
  rank[analysis.definiteVerdict] >= rank[cedar.least] && rank[analysis.verdict] <= rank[cedar.most]

test(`of ${plans} plans, the analysis is within what Cedar leaves open (seed ${seed})`, () => {
  const asked = ask(plans)
  expect(asked.filter((each) => !isWithin(each)).slice(0, 2)).toEqual([])
  // Cedar must often be certain, and of each verdict. Otherwise the test proves little.
  const certain = asked.filter(
    ({ cedar, params }) => cedar.least === cedar.most && references(params).length > 0,
  )
  for (const verdict of ['allow', 'require_approval', 'deny'] as const) {
    const count = certain.filter(({ cedar }) => cedar.least === verdict).length
    expect({ verdict, isOften: count > plans / 50 }).toEqual({ verdict, isOften: true })
  }
  // Certain answers must occur with both kinds of unknowns.
  for (const template of [unknown, fromStep])
    expect(certain.filter(({ params }) => JSON.stringify(params).includes(template)).length).toBeGreaterThan(
      plans / 20,
    )
})

test.each<[string, (rules: Rules) => Rules]>([
  ['forgets a rule', (rules) => rules.slice(1)],
  [
    'denies what a rule holds',
    (rules) =>
      rules.map((each) => (each.verdict === 'require_approval' ? { ...each, verdict: 'deny' } : each)),
  ],
  ['enforces a shadow rule', (rules) => rules.map((each) => ({ ...each, status: 'active' }))],
])('Cedar notices an analysis that %s', (_, mistake) => {
  expect(ask(400, mistake).filter((each) => !isWithin(each)).length).toBeGreaterThan(4)
})
