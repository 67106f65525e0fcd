import { compilePolicy, decide, type CompiledPolicy, type Decided } from './decide.ts'
import { callOf, exampleOf, witnessesOf, type Draft, type ExampleCall } from './example-calls.ts'
import { headsOf, labelSetsOf, valuesOf, type Head } from './example-parts.ts'
import type { StoredRule } from './rule.ts'
import { unionLabels, type Json, type Label } from './types.ts'

/*
 * Looks for calls that two sets of rules decide differently. The calls are made from the values, labels and tools that
 * the rules mention. Nothing is proven if no such call is found.
 */

/** A call for which the two sets of rules give different verdicts. */
export interface Change {
  readonly from: Decided
  readonly to: Decided
  readonly example: ExampleCall
}

export interface RuleSets {
  readonly from: readonly StoredRule[]
  readonly to: readonly StoredRule[]
  readonly approvalsEnabled: boolean
}

/** The limits of what is tried with each rule: values of each parameter, sets of labels, and tools. */
const mostValues = 40
const mostLabelSets = 30
const mostTools = 30

/**
 * Tries calls. For each pair of verdicts and each pair of deciding rules, puts the smallest example into `changes`.
 * Yields after each step. A step is a call that was tried, or a rule that was read.
 */
export function* findChanges(sets: RuleSets, changes: Map<string, Change>): Generator<void> {
  const policies = [sets.from, sets.to].map((rules) =>
    compilePolicy({ rules, labelRules: [], approvalsEnabled: sets.approvalsEnabled }),
  ) as [CompiledPolicy, CompiledPolicy]
  for (const draft of draftsFor(sets)) {
    const change = draft === null ? null : changeFor(policies, draft)
    if (draft !== null && change !== null) {
      const key = keyOf(change)
      const known = changes.get(key)
      if (known === undefined || sizeOf(change.example) < sizeOf(known.example)) {
        changes.set(key, shrunk(policies, draft, key))
      }
    }
    yield
  }
}

const keyOf = ({ from, to }: Change): string =>
  JSON.stringify([from.verdict, to.verdict, from.ruleId, to.ruleId])

export const sizeOf = ({ params, labels }: ExampleCall): number =>
  JSON.stringify(params).length + JSON.stringify(labels).length

/** Returns null if both sets give the same verdict, or if no tool takes such a call. */
function changeFor([before, after]: [CompiledPolicy, CompiledPolicy], draft: Draft): Change | null {
  const example = exampleOf(draft)
  const call = example === null ? null : callOf(example)
  if (example === null || call === null) return null
  const [from, to] = [decide(before, call), decide(after, call)]
  return from.verdict === to.verdict ? null : { from, to, example }
}

/**
 * Leaves out each label and each parameter that the example does not need. The same rules still decide, with the same
 * verdicts.
 */
function shrunk(policies: [CompiledPolicy, CompiledPolicy], draft: Draft, key: string): Change {
  let small = draft
  const tries = [
    ...draft.labels.map((label) => (each: Draft): Draft => ({ ...each, labels: each.labels.filter((other) => other !== label) })), // prettier-ignore
    ...[...draft.values.keys()].map((path) => (each: Draft): Draft => ({ ...each, values: without(each.values, path) })), // prettier-ignore
  ]
  for (const change of tries) {
    const next = change(small)
    const found = changeFor(policies, next)
    if (found !== null && keyOf(found) === key) small = next
  }
  return changeFor(policies, small) as Change
}

/** Returns the rules that only one of the sets has (`changed`), and the rules that both sets have (`same`). */
function changedFirst({ from, to }: RuleSets): {
  readonly changed: StoredRule[]
  readonly same: StoredRule[]
} {
  const [before, after] = [from, to].map((rules) => new Set(rules.map(contentOf))) as [
    Set<string>,
    Set<string>,
  ]
  const isIn = (rules: Set<string>) => (rule: StoredRule) => rules.has(contentOf(rule))
  return {
    changed: [...from.filter((rule) => !isIn(after)(rule)), ...to.filter((rule) => !isIn(before)(rule))],
    same: from.filter(isIn(after)),
  }
}

/** Returns the rule as text, without the fields that do not matter for its decisions. */
const contentOf = (rule: StoredRule): string =>
  JSON.stringify(
    Object.entries(rule)
      .filter(([field]) => field !== 'id' && field !== 'name' && field !== 'description')
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )

/** Yields the calls to try. Calls that are made from changed rules come first. Yields null after a rule was read. */
function* draftsFor(sets: RuleSets): Generator<Draft | null> {
  const { changed, same } = changedFirst(sets)
  const active = [...changed, ...same].filter(({ status }) => status === 'active')
  const parts = partsOf(sets, active)
  const known = new Map<StoredRule, readonly Draft[]>()
  for (const rule of active) {
    const drafts = remembered(known, rule)
    yield null
    for (const draft of drafts) {
      yield draft
      yield* variationsOf(draft, parts)
    }
    // A call that a second rule matches too can get another verdict.
    for (const other of changed) {
      const seconds = remembered(known, other)
      yield null
      for (const draft of drafts) for (const second of seconds) yield merged(draft, second)
    }
  }
}

function remembered(known: Map<StoredRule, readonly Draft[]>, rule: StoredRule): readonly Draft[] {
  const drafts = known.get(rule) ?? witnessesOf(rule)
  known.set(rule, drafts)
  return drafts
}

interface Parts {
  readonly heads: readonly Head[]
  readonly labelSets: readonly (readonly Label[])[]
  readonly values: ReadonlyMap<string, readonly Json[]>
}

/** Yields variations of a draft. In each variation, one part is different, or one value and the labels. */
function* variationsOf(draft: Draft, { heads, labelSets, values }: Parts): Generator<Draft> {
  for (const head of heads) yield { ...draft, head }
  for (const labels of labelSets) yield { ...draft, labels }
  for (const [path, some] of values) {
    yield { ...draft, values: without(draft.values, path) }
    for (const value of some) yield { ...draft, values: new Map([...draft.values, [path, value]]) }
  }
  for (const labels of labelSets) {
    for (const path of draft.values.keys()) {
      for (const value of values.get(path) ?? [])
        yield { ...draft, labels, values: new Map([...draft.values, [path, value]]) }
    }
  }
}

const merged = (one: Draft, two: Draft): Draft => ({
  head: one.head,
  labels: unionLabels(one.labels, two.labels),
  values: new Map([...one.values, ...two.values]),
})

const without = (values: Draft['values'], path: string): Draft['values'] =>
  new Map([...values].filter(([each]) => each !== path))

/** Returns the tools, labels and values that the rules mention. What only one of the sets mentions comes first. */
function partsOf({ from, to }: RuleSets, active: readonly StoredRule[]): Parts {
  const valuesAt = new Map<string, Map<string, Json>>()
  const add = (path: string, value: Json): void => {
    const known = valuesAt.get(path) ?? new Map<string, Json>()
    if (known.size < mostValues) known.set(JSON.stringify(value), value)
    valuesAt.set(path, known)
  }
  for (const { param, value } of onlyInOne(comparedIn(from), comparedIn(to)))
    for (const each of near(value)) add(param, each)
  for (const { params = [] } of active)
    for (const condition of params) for (const value of valuesOf(condition)) add(condition.param, value)
  const labels = onlyInOne(labelsIn(from), labelsIn(to)).slice(0, mostLabelSets / 2)
  const sets = someDistinct(active, labelSetsOf, mostLabelSets - labels.length)
  return {
    heads: someDistinct(active, headsOf, mostTools),
    labelSets: [...labels.map((label) => [label]), ...sets],
    values: new Map([...valuesAt].map(([path, values]) => [path, [...values.values()]])),
  }
}

/** Returns at most `most` different parts. Begins with the parts of the first rule. */
function someDistinct<T>(
  rules: readonly StoredRule[],
  partsIn: (rule: StoredRule) => readonly T[],
  most: number,
): T[] {
  const found = new Map<string, T>()
  for (const rule of rules) {
    if (found.size >= most) break
    for (const part of partsIn(rule)) found.set(JSON.stringify(part), part)
  }
  return [...found.values()].slice(0, most)
}

function onlyInOne<T>(one: readonly T[], two: readonly T[]): T[] {
  const [inOne, inTwo] = [one, two].map(
    (values) => new Map(values.map((value) => [JSON.stringify(value), value])),
  )
  return [
    ...[...(inTwo ?? [])].filter(([key]) => inOne?.has(key) !== true),
    ...[...(inOne ?? [])].filter(([key]) => inTwo?.has(key) !== true),
  ].map(([, value]) => value)
}

interface Compared {
  readonly param: string
  readonly value: string | number | boolean
}

/** Returns the values that conditions compare, each with its parameter. */
const comparedIn = (rules: readonly StoredRule[]): Compared[] =>
  rules.flatMap(({ params = [] }) =>
    params.flatMap(({ param, operator, value }) =>
      operator === 'exists' || operator === 'from_label'
        ? []
        : [value].flat().map((each) => ({ param, value: each })),
    ),
  )

const labelsIn = (rules: readonly StoredRule[]): Label[] =>
  rules.flatMap(({ labels = {}, params = [] }) => [
    ...Object.values(labels).flatMap((list) => list ?? []),
    ...params.flatMap((condition) => (condition.operator === 'from_label' ? condition.value : [])),
  ])

/** Returns the value. If the value may be a domain, also returns an address in this domain. */
const near = (value: Compared['value']): Json[] =>
  typeof value === 'string' && value.includes('.') ? [value, `someone@${value}`] : [value]
