import fc from 'fast-check'
import { addedLabels, decide, judgeCall } from '../../src/policy/decide.ts'
import { compilePolicy } from '../support/compile.ts'
import type { PlanStep } from '../../src/policy/plan-types.ts'
import type { StepAnalysis } from '../../src/policy/plan.ts'
import type { ToolAccess } from '../../src/policy/tool-access.ts'
import { fillInMe } from '../../src/policy/me.ts'
import { expressionOver, labels, placed, placeTemplate, template, tool, value } from './arbitraries.ts'
import { references } from '../../src/policy/template-syntax.ts'
import { placeOfItem } from '../../src/policy/reference.ts'
import { TemplateError, inputSource, resolve } from '../../src/policy/templates.ts'
import {
  type Json,
  type JsonObject,
  type Label,
  type Verdict,
  rank,
  stricter,
  unionLabels,
} from '../../src/policy/types.ts'
import { isWanted, whenParts } from '../../src/policy/when.ts'
import { builtinsAt } from './template-scope.ts'

/* Plans, and runs of them with the unknown parts filled in. The law of plan analysis compares the two. */

const places = Object.fromEntries(placed.map((param) => [param, placeTemplate]))
const params = fc.record(
  {
    ...places,
    to: template,
    body: template,
    list: fc.oneof(
      fc.array(template, { maxLength: 2 }),
      fc.array(fc.record({ email: template, name: template }, { requiredKeys: [] }), { maxLength: 2 }),
    ) as fc.Arbitrary<Json>,
  },
  { requiredKeys: [] },
) as fc.Arbitrary<JsonObject>

const condition = expressionOver(['input.a', 'input.b', 's0.output.x', 's1.output', 'item'])
const comparison = fc.record({
  value: fc.oneof(template, fc.constantFrom<Json>('{{item.x}}', '{{input.a.x}}', 'a{{input.b.x}}')),
  operator: fc.constantFrom('equals' as const, 'not_equals' as const, 'exists' as const),
  compare: fc.constantFrom<Json>('hello', true),
})
const whenOf = fc.oneof(
  comparison,
  condition.map((each) => `{{ ${each} }}`),
)

const stepBody = fc.record({
  tool,
  params,
  outputLabels: fc.subarray(labels, { maxLength: 1 }),
  when: fc.option(whenOf, { nil: undefined, freq: 3 }),
  forEach: fc.option(fc.constantFrom<Json>('{{s0.output}}', ['a@acme.com'], ['{{input.a}}', 'hello'], []), {
    nil: undefined,
    freq: 3,
  }),
  onError: fc.option(fc.constant('continue' as const), { nil: undefined, freq: 4 }),
  bringsOwnLabels: fc.boolean(),
  skipsWithOthers: fc.boolean(),
  callsNothing: fc.constantFrom(
    false,
    false,
    false,
    false,
    'waits' as const,
    'computes' as const,
    'asks' as const,
  ),
})

/** Steps s0..s2; each may refer only to earlier ones, and to an item only inside for_each. */
export const plan = fc.tuple(stepBody, stepBody, stepBody).map((bodies) =>
  bodies.map(({ callsNothing, ...body }, index): PlanStep => {
    const fits = (each: Json | undefined, hasItem: boolean) =>
      references(each ?? null).every((reference) => {
        if (reference.kind === 'item') return hasItem
        if ('path' in reference && reference.path.includes(placeOfItem) && !hasItem) return false
        return reference.kind !== 'step' || Number(reference.stepId.slice(1)) < index
      })
    const forEach = fits(body.forEach, false) ? body.forEach : undefined
    const hasItem = forEach !== undefined
    const when = fits([...whenParts(body.when)], hasItem) ? body.when : undefined
    const kept = Object.fromEntries(Object.entries(body.params).filter(([, each]) => fits(each, hasItem)))
    const used = references([kept, forEach ?? null, ...whenParts(when)])
    const dependsOn = [...new Set(used.flatMap((each) => (each.kind === 'step' ? [each.stepId] : [])))]
    return {
      ...body,
      ...(callsNothing === false
        ? { sideEffect: 'egress' as const, people }
        : {
            tool: null,
            sideEffect: null,
            outputLabels: callsNothing === 'asks' ? ['untrusted'] : [],
            bringsOwnLabels: false,
          }),
      isComputed: callsNothing === 'computes',
      id: `s${index}`,
      params: kept,
      forEach,
      when,
      dependsOn,
    }
  }),
)

/** The person who runs the plan; `me` in `to` and `list` means this address. */
export const requester = 'b@evil.net'

const people = ['to', 'list']

export interface World {
  inputs: JsonObject
  /** Labels of the inputs, known before the run. */
  inputLabels: ReadonlyMap<string, Label[]>
  outputs: Json[]
  /** Labels that values bring with them, for steps that declare this. */
  brought: Label[]
  /** Whether each step fails under `on_error: continue`, in the order of the steps. */
  fails: boolean[]
  /** Whether a skipped or failed step passes on the labels of its inputs; the law holds in both cases. */
  passesThrough: boolean
}

export const world: fc.Arbitrary<World> = fc.record({
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

/** What a step met in a run. */
export interface Actual {
  readonly verdict: Verdict
  readonly labels: readonly Label[]
  /** The rules that match one of its calls, and those that were asked: no tool policy had denied the call. */
  readonly matching: ReadonlySet<string>
  readonly asked: ReadonlySet<string>
}

/** Runs the plan with concrete values; a step that cannot be resolved ends the run. */
function run(
  policy: ReturnType<typeof compilePolicy>,
  access: ToolAccess,
  steps: readonly PlanStep[],
  filled: World,
) {
  const verdicts = new Map<string, Actual>()
  const outputs = new Map<string, Json>()
  const skipped = new Set<string>()
  const carried = new Map<string, Label[]>(
    [...filled.inputLabels].map(([name, own]) => [inputSource(name), own]),
  )
  const sourcesIn = (each: Json) =>
    references(each).flatMap((reference) => {
      if (reference.kind === 'input') return [inputSource(reference.name)]
      return reference.kind === 'step' ? [reference.stepId] : []
    })
  for (const [index, step] of steps.entries()) {
    const places = [step.params, step.forEach ?? null, ...whenParts(step.when)]
    const inputLabels = unionLabels(...sourcesIn(places).map((id) => carried.get(id) ?? []))
    const itemSources = sourcesIn(step.forEach ?? null)
    const scope = (item?: { item: Json; index: number }) => ({
      inputs: filled.inputs,
      labelledInputs: filled.inputLabels,
      step: (id: string) => outputs.get(id),
      itemSources,
      builtins: builtinsAt('2026-01-02'),
      ...item,
    })
    const isPassedOver =
      step.skipsWithOthers === true &&
      step.dependsOn.length > 0 &&
      step.dependsOn.every((id) => skipped.has(id))
    const list = step.forEach === undefined ? null : isPassedOver ? [] : resolve(step.forEach, scope()).value
    if (step.forEach !== undefined && !Array.isArray(list)) return verdicts
    const computed: Json[] = []
    const items = list === null ? [scope()] : (list as Json[]).map((item, at) => scope({ item, index: at }))
    let strictest: Verdict = 'allow'
    let added: Label[] = []
    let ran = false
    const matching = new Set<string>()
    const asked = new Set<string>()
    for (const each of isPassedOver ? [] : items) {
      if (step.when !== undefined) {
        let isOn: boolean
        try {
          isOn = isWanted(step.when, each)
        } catch (error) {
          if (error instanceof TemplateError) throw error
          return verdicts
        }
        if (!isOn) {
          computed.push(null)
          continue
        }
      }
      ran = true
      if (step.isComputed === true) computed.push(resolve(step.params, each).value)
      if (step.tool === null || step.sideEffect === null) continue
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
      for (const { id } of decide(policy, call).matchedRules) matching.add(id)
      const judged = judgeCall({ compiled: policy, toolAccess: access }, call, 'member')
      strictest = stricter(strictest, judged.verdict)
      for (const { id } of judged.matchedRules) asked.add(id)
      added = unionLabels(added, addedLabels(policy, call))
    }
    if (!ran && (isPassedOver || items.length > 0)) skipped.add(step.id)
    verdicts.set(step.id, { verdict: strictest, labels: inputLabels, matching, asked })
    const completed = ran && !(step.onError === 'continue' && filled.fails[index] === true)
    const output = step.isComputed === true ? (list === null ? computed[0] : computed) : filled.outputs[index]
    outputs.set(step.id, completed ? (output ?? null) : null)
    const own = unionLabels(inputLabels, step.outputLabels, added, step.bringsOwnLabels ? filled.brought : [])
    carried.set(step.id, completed ? own : filled.passesThrough ? inputLabels : [])
  }
  return verdicts
}

/** The labels of the inputs in a run. An input with a known value has only its known labels. */
export function withKnownLabels(each: World, part: Pick<World, 'inputs' | 'inputLabels'>, known: Known) {
  if (known === 'all inputs') return part.inputLabels
  const unknown = [...each.inputLabels].filter(([name]) => !Object.hasOwn(part.inputs, name))
  return new Map([...unknown, ...part.inputLabels])
}

/** Each analysed step with its result in a run. Steps that the run did not reach are left out. */
export function actuals(
  policy: ReturnType<typeof compilePolicy>,
  access: ToolAccess,
  steps: readonly PlanStep[],
  filled: World,
  analysed: readonly StepAnalysis[],
): [StepAnalysis, Actual][] {
  try {
    const happened = run(policy, access, steps, filled)
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

/**
 * The results of a run that are outside the bounds of the analysis. The comparisons are plain, because an `expect` for
 * each would take minutes.
 */
export function outsideOf(
  step: StepAnalysis,
  { verdict, labels: carried, matching, asked }: Actual,
): string[] {
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
    within(certainty === 'possible' || matching.has(ruleId), `${ruleId} does not match`)
  if (step.blocked?.certainty === 'definite') within(verdict === 'deny', 'the policy does not deny it')
  for (const id of asked)
    within(
      step.rules.some(({ ruleId }) => ruleId === id),
      `${id} matches`,
    )
  return outside
}

export type Known = 'all inputs' | 'one input' | 'no input'

/** The part of a world that the analysis knows: values and labels of some inputs. */
export function knownPart(filled: World, known: Known): Pick<World, 'inputs' | 'inputLabels'> {
  const { a } = filled.inputs
  if (known === 'all inputs') return filled
  if (known === 'no input' || a === undefined) return { inputs: {}, inputLabels: new Map() }
  const labels = filled.inputLabels.get('a')
  return { inputs: { a }, inputLabels: new Map(labels === undefined ? [] : [['a', labels]]) }
}
