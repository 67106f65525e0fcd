import { type CompiledRule, compileRule, joinRules } from './compile.ts'
import type { Call, CompiledPolicy, Decided } from './decide.ts'
import {
  callOf,
  type Draft,
  type ExampleCall,
  exampleOf,
  type ExampleTools,
  type Head,
  headsOf,
  labelSetsOf,
  labelsOfSources,
  type Step,
  Tries,
  valuesOf,
  witnessesOf,
  without,
} from './example-calls.ts'
import type { ExternalTools } from './external-tools.ts'
import type { StoredRule } from './rule.ts'
import { peopleFor, roleOf, shownSeats, withThreshold, type RoleSeat, type ShownSeat } from './seats.ts'
import { type AgentAccess, type Json, type Label, unionLabels } from './types.ts'
import { inRules } from './operators/index.ts'
import { listOf, type Scalar } from './operators/operator.ts'

/* Calls that two sets decide differently, made from what their rules mention. Finding none proves nothing. */

/** Different verdicts, or an approval under different terms. */
export interface Change {
  readonly from: Decided
  readonly to: Decided
  readonly example: ExampleCall
}

interface RuleSets extends ExampleTools {
  readonly from: readonly StoredRule[]
  readonly to: readonly StoredRule[]
  readonly approvalsEnabled: boolean
  readonly externalTools?: ExternalTools | undefined
  readonly agentAccess?: AgentAccess | undefined
}

/** The smallest example of each pair of verdicts, terms and rules. Yields after each short step. */
export function* findChanges(sets: RuleSets, changes: Map<string, Change>): Generator<Step> {
  const both: Both = {
    from: yield* compiledSet(sets.from, sets),
    to: yield* compiledSet(sets.to, sets),
    tries: new Tries(),
    tools: sets,
  }
  for (const draft of draftsFor(sets)) {
    if (draft === null || draft === 'too large') {
      yield draft
      continue
    }
    const change = yield* changeFor(both, draft)
    if (typeof change === 'object' && change !== null) {
      const key = keyOf(change)
      const known = changes.get(key)
      if (known === undefined || sizeOf(change.example) < sizeOf(known.example)) {
        changes.set(key, change)
        changes.set(key, yield* shrunk(both, draft, change))
      }
    }
    yield change === 'too large' ? 'too large' : 'tried'
  }
}

const keyOf = ({ from, to }: Change): string =>
  JSON.stringify(
    [from, to].map(({ verdict, ruleId, ...terms }) => [verdict, ruleId, termsOf({ verdict, ...terms })]),
  )

/** What the API says of an approval that a call needs. */
export interface ApprovalNeeds {
  /** Null if only groups decide. */
  readonly approver: RoleSeat['role'] | null
  readonly approvals_needed: number
  readonly approvers: readonly ShownSeat[]
  readonly expires_after_seconds: number | null
  readonly remind_after_seconds: number | null
  readonly approver_may_edit: readonly string[]
}

/** Null if the call needs no approval. `threshold`: the least number of people. */
export const termsOf = (
  {
    verdict,
    seats,
    expiresAfterSeconds,
    remindAfterSeconds,
    mayEdit,
  }: Pick<Decided, 'verdict' | 'seats' | 'expiresAfterSeconds' | 'remindAfterSeconds' | 'mayEdit'>,
  threshold = 1,
): ApprovalNeeds | null =>
  verdict === 'require_approval'
    ? {
        approver: roleOf(seats),
        approvals_needed: Math.max(threshold, peopleFor(seats)),
        approvers: shownSeats(withThreshold(seats, threshold)),
        expires_after_seconds: expiresAfterSeconds,
        remind_after_seconds: remindAfterSeconds,
        approver_may_edit: mayEdit,
      }
    : null

export const sizeOf = ({ params, labels }: ExampleCall): number =>
  JSON.stringify(params).length + JSON.stringify(labels).length

/** Yields often while it looks for the rules that cover the call. */
type PolicyFor = (call: Call) => Generator<null, CompiledPolicy>

interface Both {
  readonly from: PolicyFor
  readonly to: PolicyFor
  readonly tries: Tries
  readonly tools: ExampleTools
}

/** Yields after each rule. */
function* compiledSet(
  rules: readonly StoredRule[],
  { facts, approvalsEnabled, externalTools, agentAccess }: RuleSets,
): Generator<null, PolicyFor> {
  const compiled: CompiledRule[] = []
  for (const rule of rules) {
    const each = compileRule(rule)
    if (each !== null) compiled.push(each)
    yield null
  }
  const known = new Map<string, CompiledPolicy>()
  return function* ({ tool, sideEffect, source }) {
    const key = `${source} ${sideEffect} ${tool}`
    const policy = known.get(key)
    if (policy !== undefined) return policy
    const covering: CompiledRule[] = []
    for (const rule of compiled) {
      if (rule.covers(tool, sideEffect, source)) covering.push(rule)
      yield null
    }
    const made = joinRules(facts, {
      rules: covering,
      labelRules: [],
      approvalsEnabled,
      externalTools,
      agentAccess,
    })
    if (known.size >= mostPolicies) known.clear()
    known.set(key, made)
    return made
  }
}

/** The rules that cover a tool are kept for so many tools. */
const mostPolicies = 200

/** Null if both decide alike, or no tool takes such a call; `too large` if it needs too many comparisons. */
function* changeFor(
  { from, to, tries, tools }: Both,
  draft: Draft,
): Generator<null, Change | 'too large' | null> {
  const example = exampleOf(draft, tools)
  const call = example === null ? null : callOf(example)
  if (example === null || call === null) return null
  const before = tries.decide(yield* from(call), call)
  yield null
  const after = tries.decide(yield* to(call), call)
  if (before === null || after === null) return 'too large'
  const isSame =
    before.verdict === after.verdict && JSON.stringify(termsOf(before)) === JSON.stringify(termsOf(after))
  return isSame ? null : { from: before, to: after, example }
}

/** Leaves out what the same decision of the same rules does not need. Yields after each try. */
function* shrunk(both: Both, draft: Draft, change: Change): Generator<null, Change> {
  const key = keyOf(change)
  let small = { draft, change }
  const tries = [
    ...draft.labels.map((label) => (each: Draft): Draft => ({ ...each, labels: each.labels.filter((other) => other !== label) })), // prettier-ignore
    ...[...draft.values.keys()].map((path) => (each: Draft): Draft => ({ ...each, values: without(each.values, path) })), // prettier-ignore
  ]
  for (const leaveOut of tries) {
    const next = leaveOut(small.draft)
    const found = yield* changeFor(both, next)
    if (typeof found === 'object' && found !== null && keyOf(found) === key)
      small = { draft: next, change: found }
    yield null
  }
  return small.change
}

/** Calls from changed rules come first. */
function* draftsFor(sets: RuleSets): Generator<Draft | Exclude<Step, 'tried'>> {
  const { changed, same } = yield* changedFirst(sets)
  const active = [...changed, ...same].filter(({ status }) => status === 'active')
  const parts = yield* diffParts(sets, active)
  const known = new Map<StoredRule, readonly Draft[]>()
  for (const rule of active) {
    const drafts = yield* remembered(known, rule, sets)
    yield null
    for (const draft of drafts) {
      yield draft
      yield* variationsOf(draft, parts)
    }
    // A second rule may match the same call and change the verdict.
    for (const other of changed) {
      const seconds = yield* remembered(known, other, sets)
      yield null
      for (const draft of drafts) for (const second of seconds) yield merged(draft, second)
    }
  }
}

function* remembered(
  known: Map<StoredRule, readonly Draft[]>,
  rule: StoredRule,
  tools: ExampleTools,
): Generator<Exclude<Step, 'tried'>, readonly Draft[]> {
  const drafts = known.get(rule) ?? (yield* witnessesOf(rule, tools))
  known.set(rule, drafts)
  return drafts
}

/** In each, one part is different, or one value and the labels. */
function* variationsOf(draft: Draft, { heads, labelSets, values }: DiffParts): Generator<Draft> {
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

/* The parts from which two sets of rules are compared. Yields after each rule. */

interface Sets extends ExampleTools {
  readonly from: readonly StoredRule[]
  readonly to: readonly StoredRule[]
}

interface DiffParts {
  readonly heads: readonly Head[]
  readonly labelSets: readonly (readonly Label[])[]
  readonly values: ReadonlyMap<string, readonly Json[]>
}

/** Tried with each rule. */
const mostValues = 40
const mostLabelSets = 30

/** Rules that only one of the sets has, and those of both. */
function* changedFirst({
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

/** Without the fields that do not matter for decisions. */
const contentOf = (rule: StoredRule): string =>
  JSON.stringify(
    Object.entries(rule)
      .filter(([field]) => field !== 'id' && field !== 'name' && field !== 'description')
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  )

/** What the rules mention, with what only one set mentions first. */
function* diffParts({ from, to, ...tools }: Sets, active: readonly StoredRule[]): Generator<null, DiffParts> {
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
    heads: yield* someDistinct(active, (rule) => headsOf(rule, tools), 30),
    labelSets: [...labels.map((label) => [label]), ...sets],
    values: new Map([...valuesAt].map(([path, values]) => [path, [...values.values()]])),
  }
}

/** Begins with the parts of the first rule. */
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

/** The second set comes first. */
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
  readonly isDomain: boolean
  readonly value: Scalar
}

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

/** Also an address in what may be a domain. For people there are no bare domains, so only the address. */
function near({ param, isDomain, value }: Compared, forPeople: ReadonlySet<string>): Json[] {
  if (typeof value !== 'string' || !value.includes('.')) return [value]
  const address = `someone@${value}`
  return isDomain && forPeople.has(param.split('.')[0] ?? '') ? [address] : [value, address]
}
