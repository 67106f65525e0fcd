import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { addedLabels, compilePolicy, decide } from '../../src/policy/decide.ts'
import { type Plan, type PlanStep, analyzePlan } from '../../src/policy/plan.ts'
import { fillInMe } from '../../src/policy/me.ts'
import { conditionOn, labels, source, template, value } from './arbitraries.ts'
import { references } from '../../src/policy/template-syntax.ts'
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

/** Steps s0..s2; each may refer only to those before it, and to an item only inside for_each. */
const plan = fc.tuple(stepBody, stepBody, stepBody).map((bodies) =>
  bodies.map((body, index): PlanStep => {
    const fits = (each: Json | undefined, hasItem: boolean) =>
      references(each ?? null).every((reference) => {
        if (reference.kind === 'item') return hasItem
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

/** Whoever runs the plan: what `me` in `to` and `list` stands for. */
const requester = 'b@evil.net'
const people = ['to', 'list']

interface World {
  inputs: JsonObject
  /** Labels that inputs carry, known before the run. */
  inputLabels: ReadonlyMap<string, Label[]>
  outputs: Json[]
  /** Labels that values bring along, for steps that say so. */
  brought: Label[]
  /** Which steps fail under `on_error: continue`. */
  fails: boolean[]
  /** Whether a skipped or failed step hands on the labels of its inputs: the law holds either way. */
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

/** Runs the plan for real in one world; a step that cannot be resolved ends the run. */
function run(policy: ReturnType<typeof compilePolicy>, steps: readonly PlanStep[], filled: World) {
  const verdicts = new Map<string, Verdict>()
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
      strictest = stricter(strictest, decide(policy, call).verdict)
      added = unionLabels(added, addedLabels(policy, call))
    }
    verdicts.set(step.id, strictest)
    const completed = ran && !(step.onError === 'continue' && filled.fails[index] === true)
    outputs.set(step.id, completed ? (filled.outputs[index] ?? null) : null)
    const own = unionLabels(inputLabels, step.outputLabels, added, step.bringsOwnLabels ? filled.brought : [])
    carried.set(step.id, completed ? own : filled.passesThrough ? inputLabels : [])
  }
  return verdicts
}

describe('the law of plan analysis', () => {
  test('every filling of the unknowns gets each step a verdict between its definite and its possible one', () => {
    let compared = 0
    fc.assert(
      fc.property(
        source,
        plan,
        world,
        fc.constantFrom('known', 'partly', 'unknown'),
        (rules, steps, filled, known) => {
          const policy = compilePolicy(rules)
          const { a } = filled.inputs
          const analyzed: Plan = {
            steps,
            inputs: known === 'known' ? filled.inputs : known === 'partly' && a !== undefined ? { a } : {},
            areInputsComplete: known === 'known',
            inputLabels: filled.inputLabels,
            requesterEmail: known === 'unknown' ? undefined : requester,
          }
          const analysis = analyzePlan(policy, analyzed)
          let verdicts: Map<string, Verdict>
          try {
            verdicts = run(policy, steps, filled)
          } catch (error) {
            // The run ends with an error before any decision.
            if (error instanceof TemplateError) return
            throw error
          }
          for (const step of analysis.steps) {
            const actual = verdicts.get(step.stepId)
            if (actual === undefined) continue
            compared++
            expect(rank[actual]).toBeGreaterThanOrEqual(rank[step.definiteVerdict])
            expect(rank[actual]).toBeLessThanOrEqual(rank[step.verdict])
          }
        },
      ),
      { numRuns: 3000 },
    )
    expect(compared).toBeGreaterThan(1000)
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
          const resolved = resolve({ to }, scope).value
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
