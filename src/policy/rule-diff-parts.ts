import type { Assignment } from './example-calls.ts'
import {
  headsOf,
  labelSetsOf,
  labelsOfSources,
  valuesOf,
  type ExampleTools,
  type Head,
} from './example-parts.ts'
import { inRules } from './operators/index.ts'
import { listOf, type Scalar } from './operators/operator.ts'
import type { StoredRule } from './rule.ts'
import type { Json, Label } from './types.ts'

/* Finds the parts from which a comparison of two sets of rules makes its calls. Yields after each rule. */

interface Sets extends ExampleTools {
  readonly from: readonly StoredRule[]
  readonly to: readonly StoredRule[]
}

export interface DiffParts {
  readonly heads: readonly Head[]
  readonly labelSets: readonly (readonly Label[])[]
  readonly values: ReadonlyMap<string, readonly Json[]>
}

/** The limits of what is tried with each rule: values of each parameter, sets of labels, and tools. */
const mostValues = 40
const mostLabelSets = 30
const mostTools = 30

/** Returns the rules that only one of the sets has (`changed`), and the rules that both sets have (`same`). */
export function* changedFirst({
  from,
  to,
}: Pick<Sets, 'from' | 'to'>): Generator<
  null,
  { readonly changed: StoredRule[]; readonly same: StoredRule[] }
> {
  const contents = new Map<StoredRule, string>()
  for (const rule of [...from, ...to]) {
    contents.set(rule, contentOf(rule))
    yield null
  }
  const setOf = (rules: readonly StoredRule[]) => new Set(rules.map((rule) => contents.get(rule)))
  const [before, after] = [setOf(from), setOf(to)]
  const isIn = (rules: ReturnType<typeof setOf>) => (rule: StoredRule) => rules.has(contents.get(rule))
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

/** Returns the tools, labels and values that the rules mention. What only one of the sets mentions comes first. */
export function* diffParts(
  { from, to, ...tools }: Sets,
  active: readonly StoredRule[],
): Generator<null, DiffParts> {
  const valuesAt = new Map<string, Map<string, Json>>()
  const add = (path: string, value: Json): void => {
    const known = valuesAt.get(path) ?? new Map<string, Json>()
    if (known.size < mostValues) known.set(JSON.stringify(value), value)
    valuesAt.set(path, known)
  }
  const forPeople = new Set(tools.facts.tools.flatMap(({ people }) => people))
  for (const compared of yield* onlyInOne(from, to, comparedIn))
    for (const each of near(compared, forPeople)) add(compared.param, each)
  for (const { params = [] } of active) {
    for (const condition of params) for (const value of valuesOf(condition)) add(condition.param, value)
    yield null
  }
  const labels = (yield* onlyInOne(from, to, labelsIn)).slice(0, mostLabelSets / 2)
  const sets = yield* someDistinct(active, labelSetsOf, mostLabelSets - labels.length)
  return {
    heads: yield* someDistinct(active, (rule) => headsOf(rule, tools), mostTools),
    labelSets: [...labels.map((label) => [label]), ...sets],
    values: new Map([...valuesAt].map(([path, values]) => [path, [...values.values()]])),
  }
}

export const without = (values: Assignment, path: string): Assignment =>
  new Map([...values].filter(([each]) => each !== path))

/** Returns at most `most` different parts. Begins with the parts of the first rule. */
function* someDistinct<T>(
  rules: readonly StoredRule[],
  partsIn: (rule: StoredRule) => readonly T[],
  most: number,
): Generator<null, T[]> {
  const found = new Map<string, T>()
  for (const rule of rules) {
    if (found.size >= most) break
    for (const part of partsIn(rule)) found.set(JSON.stringify(part), part)
    yield null
  }
  return [...found.values()].slice(0, most)
}

/** Returns what only one of the sets mentions. The second set comes first. */
function* onlyInOne<T>(
  from: readonly StoredRule[],
  to: readonly StoredRule[],
  mentionedIn: (rule: StoredRule) => readonly T[],
): Generator<null, T[]> {
  const before = yield* mentioned(from, mentionedIn)
  const after = yield* mentioned(to, mentionedIn)
  const added = [...after].filter(([key]) => !before.has(key))
  const removed = [...before].filter(([key]) => !after.has(key))
  return [...added, ...removed].map(([, value]) => value)
}

function* mentioned<T>(
  rules: readonly StoredRule[],
  mentionedIn: (rule: StoredRule) => readonly T[],
): Generator<null, ReadonlyMap<string, T>> {
  const found = new Map<string, T>()
  for (const rule of rules) {
    for (const each of mentionedIn(rule)) found.set(JSON.stringify(each), each)
    yield null
  }
  return found
}

interface Compared {
  readonly param: string
  /** Whether the condition compares domains. */
  readonly isDomain: boolean
  readonly value: Scalar
}

/** Returns the values that conditions compare, each with its parameter. */
const comparedIn = ({ params = [] }: StoredRule): Compared[] =>
  params.flatMap(({ param, operator: name, value }) => {
    const operator = inRules(name)
    if (operator.reads !== 'values') return []
    return listOf<Scalar>(value).map((each) => ({ param, isDomain: operator.comparesDomains, value: each }))
  })

const labelsIn = ({ labels = {}, params = [] }: StoredRule): Label[] => [
  ...Object.values(labels).flatMap((list) => list ?? []),
  ...params.flatMap(labelsOfSources),
]

/**
 * Returns the value. If the value may be a domain, also returns an address in this domain. A parameter for people has no
 * bare domains, so only the address is returned.
 */
function near({ param, isDomain, value }: Compared, forPeople: ReadonlySet<string>): Json[] {
  if (typeof value !== 'string' || !value.includes('.')) return [value]
  const address = `someone@${value}`
  return isDomain && forPeople.has(param.split('.')[0] ?? '') ? [address] : [value, address]
}
