import { describe, expect, test } from '@jest/globals'
import { isAuthorizedPartial } from '@cedar-policy/cedar-wasm/nodejs'
import fc from 'fast-check'
import type { Call } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import { analyzePlan, type StepAnalysis } from '../../src/policy/plan.ts'
import type { StoredRule } from '../../src/policy/rule.ts'
import { references } from '../../src/policy/template-syntax.ts'
import { rank, type Verdict, type Json, type JsonObject, type Label } from '../../src/policy/types.ts'
import { seedFrom } from './agree.ts'
import { askedBy, contextOf, filledIn } from './cedar-context.ts'
import { basePolicy, policyOf } from './cedar-policies.ts'
import { cedarLabelOracle, cedarOracle } from './cedar.ts'
import { labelSuite } from './label-suite.ts'
import { planSuite, aPlan, fromStep, step, unknown } from './plan-suite.ts'
import { oracleSuite } from './suite.ts'

/** A call of a plan. Parameters in `unknown` have no value yet. Their known labels are in `call`. */
interface PlannedCall {
  readonly call: Call
  readonly unknown: ReadonlySet<string>
  /** Whether an unknown parameter can bring labels that nobody knows yet. */
  readonly areLabelsOpen: boolean
}

/** The least and the strictest verdict that Cedar's partial evaluation leaves open. */
interface Bounds {
  readonly least: Verdict
  readonly most: Verdict
}

/**
 * Asks Cedar to decide a call with unknowns. To Cedar, a parameter with an unknown part is unknown as a whole. Cedar
 * answers null where the unknown can change its decision.
 */
function cedarBounds(
  rules: readonly StoredRule[],
  approvalsEnabled: boolean,
  { call, unknown, areLabelsOpen }: PlannedCall,
): Bounds {
  const known = contextOf(call, askedBy(rules))
  const filled = filledIn([call], [known])
  const isOpen = (path: string): boolean => {
    const [param = ''] = path.split('.')
    return param === '*' ? unknown.size > 0 : unknown.has(param)
  }
  const open = (kind: string, records: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(
      Object.entries(records).map(([path, each]) => [path, isOpen(path) ? hole(`${kind} ${path}`) : each]),
    )
  const context = {
    ...known,
    labels: areLabelsOpen ? hole('labels') : known.labels,
    at: open('at', known.at),
    from: areLabelsOpen ? open('from', known.from) : known.from,
  }
  const policies = Object.fromEntries(
    rules
      .filter(({ status, verdict }) => status === 'active' && verdict !== 'allow')
      .map((rule, index) => [String(index), policyOf(rule, filled)]),
  )
  const decide = (action: string) => partially(action, { base: basePolicy, ...policies }, context)
  const [attended, unattended] = [decide('call'), decide('unattended')]
  const held: Verdict = approvalsEnabled ? 'require_approval' : 'deny'
  return {
    least: attended === 'deny' ? 'deny' : unattended === 'deny' ? held : 'allow',
    most: unattended === 'allow' ? 'allow' : attended === 'allow' ? held : 'deny',
  }
}

const hole = (arg: string) => ({ __extn: { fn: 'unknown', arg } })

type Question = Parameters<typeof isAuthorizedPartial>[0]

function partially(action: string, staticPolicies: Record<string, string>, context: object) {
  const answer = isAuthorizedPartial({
    principal: { type: 'Caller', id: 'c' },
    action: { type: 'Action', id: action },
    resource: { type: 'Tool', id: 't' },
    context: context as Question['context'],
    policies: { staticPolicies },
    entities: [],
  })
  if (answer.type === 'failure') throw new Error(JSON.stringify([answer.errors, staticPolicies]))
  const { decision, errored } = answer.response
  if (errored.length > 0) throw new Error(JSON.stringify([errored, staticPolicies]))
  return decision
}

describe('Cedar', () => {
  oracleSuite(() => Promise.resolve(cedarOracle))
})

describe('Cedar on label rules', () => {
  labelSuite(() => Promise.resolve(cedarLabelOracle))
})

describe('Cedar on plans', () => {
  planSuite(() => Promise.resolve(cedarOracle))
})

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
    const readsStep = references(params).some(({ kind }) => kind === 'step')
    const steps = [
      { ...step('s0', 'file_read', {}), outputLabels: labels },
      { ...step('s1', tool, params), dependsOn: readsStep ? ['s0'] : [] },
    ]
    const { approvalsEnabled } = of
    const policy = compilePolicy({ rules: seen(rules), labelRules: [], approvalsEnabled })
    const { steps: analysed } = analyzePlan(policy, { steps, inputs: {}, areInputsComplete: false })
    const cedar = cedarBounds(rules, approvalsEnabled, plannedCall(tool, params, labels))
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
  for (const template of [unknown, fromStep]) {
    const having = certain.filter(({ params }) => JSON.stringify(params).includes(template))
    expect(having.length).toBeGreaterThan(plans / 20)
  }
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
