import { compileRule, joinRules, type CompiledRule } from './compile.ts'
import type { Call, CompiledPolicy, Decided } from './decide.ts'
import { callOf, exampleOf, witnessesOf, type Draft, type ExampleCall, type Step } from './example-calls.ts'
import type { ExampleTools } from './example-parts.ts'
import type { ExternalTools } from './external-tools.ts'
import { Tries } from './example-tries.ts'
import { changedFirst, diffParts, without, type DiffParts } from './rule-diff-parts.ts'
import type { StoredRule } from './rule.ts'
import { unionLabels } from './types.ts'

/*
 * Looks for calls that two sets of rules decide differently. The calls are made from the values, labels and tools that
 * the rules mention. Nothing is proven if no such call is found.
 */

/** A call for which the two sets of rules give different verdicts, or an approval under different terms. */
export interface Change {
  readonly from: Decided
  readonly to: Decided
  readonly example: ExampleCall
}

export interface RuleSets extends ExampleTools {
  readonly from: readonly StoredRule[]
  readonly to: readonly StoredRule[]
  readonly approvalsEnabled: boolean
  readonly externalTools?: ExternalTools | undefined
}

/**
 * Tries calls. For each pair of verdicts, of terms of approval and of deciding rules, puts the smallest example into
 * `changes`. Yields after each short step, so that the caller can pause.
 */
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

/** The terms of approval of a decision. Is null if the call needs no approval. */
export const termsOf = ({
  verdict,
  approver,
  approvalsNeeded,
  expiresAfterSeconds,
}: Pick<Decided, 'verdict' | 'approver' | 'approvalsNeeded' | 'expiresAfterSeconds'>) =>
  verdict === 'require_approval'
    ? { approver, approvals_needed: approvalsNeeded, expires_after_seconds: expiresAfterSeconds }
    : null

export const sizeOf = ({ params, labels }: ExampleCall): number =>
  JSON.stringify(params).length + JSON.stringify(labels).length

/** Returns the policy that decides a call. Yields often while it looks for the rules that cover the call. */
type PolicyFor = (call: Call) => Generator<null, CompiledPolicy>

/** Both sets of rules, compiled. */
interface Both {
  readonly from: PolicyFor
  readonly to: PolicyFor
  readonly tries: Tries
  readonly tools: ExampleTools
}

/** Compiles the rules of one set. Yields after each rule. */
function* compiledSet(
  rules: readonly StoredRule[],
  { facts, approvalsEnabled, externalTools }: RuleSets,
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
    const made = joinRules(facts, { rules: covering, labelRules: [], approvalsEnabled, externalTools })
    if (known.size >= mostPolicies) known.clear()
    known.set(key, made)
    return made
  }
}

/** The rules that cover a tool are kept for this many tools. */
const mostPolicies = 200

/**
 * Returns null if both sets decide alike, or if no tool takes such a call. Returns `too large` if the call needs too
 * many comparisons.
 */
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

/**
 * Leaves out each label and each parameter that the example does not need. The same rules still decide, with the same
 * verdicts and terms. Yields after each try.
 */
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

/** Yields the calls to try. Calls that are made from changed rules come first. Yields other steps between them. */
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
    // A second rule may match the same call and change the verdict. So calls that are made from two rules are also
    // tried.
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

/** Yields variations of a draft. In each variation, one part is different, or one value and the labels. */
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
