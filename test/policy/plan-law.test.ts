import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { addedLabels, compilePolicy, decide } from '../../src/policy/decide.ts'
import type { Plan, PlanStep } from '../../src/policy/plan-types.ts'
import { analyzePlan, type StepAnalysis } from '../../src/policy/plan.ts'
import { fillInMe } from '../../src/policy/me.ts'
import { conditionOn, labels, source, template, value } from './arbitraries.ts'
import { placeOfItem, references } from '../../src/policy/template-syntax.ts'
import { type Scope, TemplateError, inputSource, resolve } from '../../src/policy/templates.ts'
import {
  type Json,
  type JsonObject,
  type Label,
  type Verdict,
  rank,
  stricter,
  unionLabels,
} from '../../src/policy/types.ts'
import { holds } from '../../src/policy/when.ts'

const params = fc.record(
  {
    to: template,
    body: template,
    list: fc.oneof(
      fc.array(template, { maxLength: 2 }),
      fc.array(fc.record({ email: template, name: template }, { requiredKeys: [] }), { maxLength: 2 }),
    ) as fc.Arbitrary<Json>,
  },
  { requiredKeys: [] },
) as fc.Arbitrary<JsonObject>

const whenOf = fc.record({
  value: template,
  operator: fc.constantFrom('equals' as const, 'not_equals' as const, 'exists' as const),
  compare: fc.constantFrom<Json>('hello', true),
})
const stepBody = fc.record({
  params,
  outputLabels: fc.subarray(labels, { maxLength: 1 }),
  when: fc.option(whenOf, { nil: undefined, freq: 3 }),
  forEach: fc.option(fc.constantFrom<Json>('{{s0.output}}', ['a@acme.com'], ['{{input.a}}', 'hello'], []), {
    nil: undefined,
    freq: 3,
  }),
  onError: fc.option(fc.constant('continue' as const), { nil: undefined, freq: 4 }),
  bringsOwnLabels: fc.boolean(),
})

/** Steps s0..s2; each may refer only to earlier ones, and to an item only inside for_each. */
const plan = fc.tuple(stepBody, stepBody, stepBody).map((bodies) =>
  bodies.map((body, index): PlanStep => {
    const fits = (each: Json | undefined, hasItem: boolean) =>
      references(each ?? null).every((reference) => {
        if (reference.kind === 'item') return hasItem
        if ('path' in reference && reference.path.includes(placeOfItem) && !hasItem) return false
        return reference.kind !== 'step' || Number(reference.stepId.slice(1)) < index
      })
    const forEach = fits(body.forEach, false) ? body.forEach : undefined
    const hasItem = forEach !== undefined
    const when = fits([body.when?.value ?? null], hasItem) ? body.when : undefined
    const kept = Object.fromEntries(Object.entries(body.params).filter(([, each]) => fits(each, hasItem)))
    const used = references([kept, forEach ?? null, when?.value ?? null])
    const dependsOn = [...new Set(used.flatMap((each) => (each.kind === 'step' ? [each.stepId] : [])))]
    return {
      ...body,
      id: `s${index}`,
      tool: `tool${index}`,
      sideEffect: 'egress',
      params: kept,
      people,
      forEach,
      when,
      dependsOn,
    }
  }),
)

/** The person who runs the plan; `me` in `to` and `list` means this address. */
const requester = 'b@evil.net'
const people = ['to', 'list']

interface World {
  inputs: JsonObject
  /** Labels of the inputs, known before the run. */
  inputLabels: ReadonlyMap<string, Label[]>
  outputs: Json[]
  /** Labels that values bring with them, for steps that declare this. */
  brought: Label[]
  /** Which steps fail under `on_error: continue`. */
  fails: boolean[]
  /** Whether a skipped or failed step passes on the labels of its inputs; the law holds in both cases. */
  passesThrough: boolean
}

const world: fc.Arbitrary<World> = fc.record({
  inputs: fc.record({ a: value, b: value }, { requiredKeys: [] }) as fc.Arbitrary<JsonObject>,
  inputLabels: fc
    .record(
      { a: fc.subarray(labels, { maxLength: 1 }), b: fc.subarray(labels, { maxLength: 1 }) },
      { requiredKeys: [] },
    )
    .map((all) => new Map(Object.entries(all))),
  outputs: fc.array(
    fc.oneof(
      value,
      value.map((x): Json => ({ x })),
    ),
    { minLength: 3, maxLength: 3 },
  ),
  brought: fc.subarray(labels),
  fails: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
  passesThrough: fc.boolean(),
})

/** Runs the plan with concrete values; a step that cannot be resolved ends the run. */
function run(policy: ReturnType<typeof compilePolicy>, steps: readonly PlanStep[], filled: World) {
  const verdicts = new Map<
    string,
    { verdict: Verdict; labels: readonly Label[]; rules: ReadonlySet<string> }
  >()
  const outputs = new Map<string, Json>()
  const carried = new Map<string, Label[]>(
    [...filled.inputLabels].map(([name, own]) => [inputSource(name), own]),
  )
  const sourcesIn = (each: Json) =>
    references(each).flatMap((reference) => {
      if (reference.kind === 'input') return [inputSource(reference.name)]
      return reference.kind === 'step' ? [reference.stepId] : []
    })
  for (const [index, step] of steps.entries()) {
    const places = [step.params, step.forEach ?? null, step.when?.value ?? null, step.when?.compare ?? null]
    const inputLabels = unionLabels(...sourcesIn(places).map((id) => carried.get(id) ?? []))
    const itemSources = sourcesIn(step.forEach ?? null)
    const scope = (item?: { item: Json; index: number }) => ({
      inputs: filled.inputs,
      labelledInputs: filled.inputLabels,
      step: (id: string) => outputs.get(id),
      itemSources,
      today: '2026-01-02',
      yesterday: '2026-01-01',
      now: '2026-01-02T00:00:00.000Z',
      ...item,
    })
    const list = step.forEach === undefined ? null : resolve(step.forEach, scope()).value
    if (step.forEach !== undefined && !Array.isArray(list)) return verdicts
    const items = list === null ? [scope()] : (list as Json[]).map((item, at) => scope({ item, index: at }))
    let strictest: Verdict = 'allow'
    let added: Label[] = []
    let ran = false
    const rules = new Set<string>()
    for (const each of items) {
      if (step.when !== undefined) {
        const { value, compare } = resolve(
          { value: step.when.value, compare: step.when.compare ?? null },
          each,
        ).value as {
          value: Json
          compare: Json
        }
        let isOn: boolean
        try {
          isOn = holds(step.when.operator, value, compare)
        } catch {
          return verdicts
        }
        if (!isOn) continue
      }
      ran = true
      const { value: resolved, sources } = resolve(step.params, each)
      const paramLabels = new Map(
        [...sources].map(([path, ids]) => [path, unionLabels(...ids.map((id) => carried.get(id) ?? []))]),
      )
      const call = {
        source: 'workflows' as const,
        tool: step.tool,
        sideEffect: step.sideEffect,
        params: fillInMe(resolved, people, requester) as JsonObject,
        labels: inputLabels,
        paramLabels,
      }
      const decided = decide(policy, call)
      strictest = stricter(strictest, decided.verdict)
      for (const { id } of decided.matchedRules) rules.add(id)
      added = unionLabels(added, addedLabels(policy, call))
    }
    verdicts.set(step.id, { verdict: strictest, labels: inputLabels, rules })
    const completed = ran && !(step.onError === 'continue' && filled.fails[index] === true)
    outputs.set(step.id, completed ? (filled.outputs[index] ?? null) : null)
    const own = unionLabels(inputLabels, step.outputLabels, added, step.bringsOwnLabels ? filled.brought : [])
    carried.set(step.id, completed ? own : filled.passesThrough ? inputLabels : [])
  }
  return verdicts
}

/** null for a call that fails before any decision, such as one with an input in text that was not given. */
function resolvedOrNull(params: JsonObject, scope: Scope): Json | null {
  try {
    return resolve(params, scope).value
  } catch (error) {
    if (error instanceof TemplateError) return null
    throw error
  }
}

type Actual = ReturnType<typeof run> extends Map<string, infer T> ? T : never

/** An input with a known value has no other labels than the known ones. */
function withKnownLabels(each: World, part: Pick<World, 'inputs' | 'inputLabels'>, known: Known) {
  if (known === 'all inputs') return part.inputLabels
  const unknown = [...each.inputLabels].filter(([name]) => !Object.hasOwn(part.inputs, name))
  return new Map([...unknown, ...part.inputLabels])
}

/** Each analysed step with what happened in a run; the steps before which the run ended are left out. */
function actuals(
  policy: ReturnType<typeof compilePolicy>,
  steps: readonly PlanStep[],
  filled: World,
  analysed: readonly StepAnalysis[],
): [StepAnalysis, Actual][] {
  try {
    const happened = run(policy, steps, filled)
    return analysed.flatMap((step): [StepAnalysis, Actual][] => {
      const actual = happened.get(step.stepId)
      return actual === undefined ? [] : [[step, actual]]
    })
  } catch (error) {
    // The run ends with an error before any decision.
    if (error instanceof TemplateError) return []
    throw error
  }
}

/** What of a run is outside the bounds of the analysis. Plain comparisons: an `expect` for each would take minutes. */
function outsideOf(step: StepAnalysis, { verdict, labels: carried, rules }: Actual): string[] {
  const outside: string[] = []
  const within = (isWithin: boolean, what: string): void => {
    if (!isWithin) outside.push(`${step.stepId}: ${what}`)
  }
  within(rank[verdict] >= rank[step.definiteVerdict], `${verdict} is below ${step.definiteVerdict}`)
  within(rank[verdict] <= rank[step.verdict], `${verdict} is above ${step.verdict}`)
  if (step.certainty === 'definite') within(verdict === step.verdict, `${verdict} is not ${step.verdict}`)
  const { definite, possible } = step.labels
  for (const label of definite) within(carried.includes(label), `${label} is not there`)
  if (!step.planned.labels.isOpen)
    for (const label of carried) within(possible.includes(label), `${label} is not possible`)
  for (const { ruleId, certainty } of step.rules)
    within(certainty === 'possible' || rules.has(ruleId), `${ruleId} does not match`)
  for (const id of rules)
    within(
      step.rules.some(({ ruleId }) => ruleId === id),
      `${id} matches`,
    )
  return outside
}

const plans = 1_300
/** Fillings tried for each plan. */
const fillings = 40
const worlds = fc.array(world, { minLength: fillings, maxLength: fillings })
type Known = 'all inputs' | 'one input' | 'no input'

/** The part of a filling that the analysis knows: values and labels of some inputs. */
function knownPart(filled: World, known: Known): Pick<World, 'inputs' | 'inputLabels'> {
  const { a } = filled.inputs
  if (known === 'all inputs') return filled
  if (known === 'no input' || a === undefined) return { inputs: {}, inputLabels: new Map() }
  const labels = filled.inputLabels.get('a')
  return { inputs: { a }, inputLabels: new Map(labels === undefined ? [] : [['a', labels]]) }
}

describe('the law of plan analysis', () => {
  test('every filling of the unknowns keeps the bounds of each step: its verdict, its labels and its rules', () => {
    let compared = 0
    let definite = 0
    fc.assert(
      fc.property(
        source,
        plan,
        worlds,
        fc.constantFrom<Known>('all inputs', 'one input', 'no input'),
        (rules, steps, [first, ...others], known) => {
          const policy = compilePolicy(rules)
          if (first === undefined) return
          const part = knownPart(first, known)
          const analyzed: Plan = {
            ...part,
            steps,
            areInputsComplete: known === 'all inputs',
            requesterEmail: known === 'no input' ? undefined : requester,
          }
          const analysis = analyzePlan(policy, analyzed)
          const outside: string[] = []
          for (const each of [first, ...others]) {
            // What is known is the same in every filling.
            const filled: World = {
              ...each,
              inputs: known === 'all inputs' ? part.inputs : { ...each.inputs, ...part.inputs },
              inputLabels: withKnownLabels(each, part, known),
            }
            for (const [step, actual] of actuals(policy, steps, filled, analysis.steps)) {
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
    // Some runs end with an error before their last step, and compare fewer.
    expect(compared).toBeGreaterThan(plans * fillings)
    expect(definite).toBeGreaterThan(compared / 10)
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
    const filling: fc.Arbitrary<Json> = fc.oneof(text, fc.constantFrom<Json>(null, [], ['b@evil.net'], {}, 1))
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
})
