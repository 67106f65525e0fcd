import { z } from 'zod'
import { compileRule, joinRules, type CompiledRule } from './compile.ts'
import { callOf, exampleOf, witnessesOf, type ExampleCall } from './example-calls.ts'
import { quote } from './words.ts'
import type { ExampleTools } from './example-parts.ts'
import type { ExternalTools } from './external-tools.ts'
import { Tries } from './example-tries.ts'
import { implies } from './implication.ts'
import { contradictions } from './rule-contradictions.ts'
import { ruleSchemas, type StoredRule } from './rule.ts'
import type { Steps } from './steps.ts'
import { rank } from './types.ts'

export const findingKinds = ['never_decides', 'duplicate', 'contradicts', 'matches_nothing'] as const

/** A rule that has no effect, and why. Each finding is proven. */
export interface Finding {
  /**
   * - `matches_nothing`: the rule's own conditions contradict each other.
   * - `duplicate`: another rule has the same conditions and verdict.
   * - `contradicts`: another rule has the same conditions and a stricter verdict.
   * - `never_decides`: another rule is at least as strict, and matches all calls of this rule.
   */
  readonly kind: (typeof findingKinds)[number]
  /** The rule without effect. */
  readonly rule: StoredRule
  /** The rule that decides in its place; null for `matches_nothing`. */
  readonly coveredBy: StoredRule | null
  readonly message: string
  /** A call that both rules match; null if none was found. */
  readonly example: ExampleCall | null
}

/**
 * Finds rules that never decide a call. `rules` are in the order in which they were saved. Leaves out inactive rules.
 * Yields the findings. Between them, yields null often, so that the caller can pause. Ends early when `steps` are used
 * up.
 */
export function* analyzeRules(
  rules: readonly StoredRule[],
  steps: Steps,
  tools: ExampleTools & { readonly externalTools?: ExternalTools | undefined },
): Generator<Finding | null> {
  // A damaged rule is not analyzed, because a damaged condition can match every call.
  const form = z.object(ruleSchemas(tools.facts).ruleShape)
  const sound: StoredRule[] = []
  for (const rule of rules) {
    if (rule.status !== 'inactive' && form.safeParse(rule).success) sound.push(rule)
    yield null
  }
  for (const [index, rule] of sound.entries()) {
    if (!steps.take()) return
    yield yield* findingFor(rule, index, { ...tools, rules: sound, steps })
  }
}

interface Analyzed extends ExampleTools {
  readonly rules: readonly StoredRule[]
  readonly steps: Steps
  readonly externalTools?: ExternalTools | undefined
}

function* findingFor(rule: StoredRule, index: number, analyzed: Analyzed): Generator<null, Finding | null> {
  const { facts, rules, steps } = analyzed
  const [problem] = contradictions(facts, rule)
  yield null
  if (problem !== undefined) {
    const message = `${quoted(rule)} matches no call: \`${problem.path.join('.')}\` ${problem.message}.`
    return { kind: 'matches_nothing', rule, coveredBy: null, message, example: null }
  }
  const covering: StoredRule[] = []
  for (const [at, other] of rules.entries()) {
    if (other === rule || other.status !== 'active' || !isStricter(other, rule, at < index)) continue
    if (!steps.take()) break
    if (yield* implies(rule, other, steps)) covering.push(other)
    if (steps.isPauseDue()) yield null
  }
  let twin: StoredRule | undefined
  for (const other of covering) {
    if (!(yield* hasSameConditions(rule, other, steps))) continue
    twin = other
    break
  }
  const [first] = covering.toSorted((a, b) => rank[b.verdict] - rank[a.verdict])
  const other = twin ?? first
  if (other === undefined) return null
  const kind = twin === undefined ? 'never_decides' : kindOfTwin(rule, twin)
  const example = yield* sharedCall(rule, other, analyzed)
  return { kind, rule, coveredBy: other, message: messageFor(kind, rule, other), example }
}

/**
 * Whether `other` decides each call that both rules match, and `rule` does not make the approval of such a call
 * stricter. `isEarlier` means that `other` was saved before `rule`.
 */
function isStricter(other: StoredRule, rule: StoredRule, isEarlier: boolean): boolean {
  if (rank[other.verdict] !== rank[rule.verdict]) return rank[other.verdict] > rank[rule.verdict]
  return isEarlier && (rule.verdict !== 'require_approval' || asksForMore(other, rule))
}

/** Whether the terms of approval of `other` are at least as strict as those of `rule`. */
function asksForMore(other: StoredRule, rule: StoredRule): boolean {
  const { expires_after_seconds: time } = rule
  const { expires_after_seconds: otherTime } = other
  const isAsShort =
    time === undefined || (otherTime !== undefined && (time === 0 || (otherTime > 0 && otherTime <= time)))
  return (
    isAsShort &&
    (rule.approver !== 'owner' || other.approver === 'owner') &&
    (other.approvals_needed ?? 1) >= (rule.approvals_needed ?? 1)
  )
}

/**
 * Whether the conditions of both rules mean the same. The verdict of a rule also changes what conditions mean. This
 * difference is ignored, because both rules are compared as `deny` rules.
 */
function* hasSameConditions(a: StoredRule, b: StoredRule, steps: Steps): Generator<null, boolean> {
  const [one, two] = [
    { ...a, verdict: 'deny' as const },
    { ...b, verdict: 'deny' as const },
  ]
  return (yield* implies(one, two, steps)) && (yield* implies(two, one, steps))
}

const kindOfTwin = (rule: StoredRule, twin: StoredRule) =>
  rule.verdict === twin.verdict ? 'duplicate' : 'contradicts'

const quoted = ({ name }: StoredRule): string => `Rule ${quote(name)}`

function messageFor(kind: Finding['kind'], rule: StoredRule, other: StoredRule): string {
  const never =
    rule.status === 'shadow' ? 'would never decide a call if it was active' : 'never decides a call'
  const by = quote(other.name)
  if (kind === 'duplicate') return `${quoted(rule)} ${never}: rule ${by} has the same conditions and verdict.`
  if (kind === 'contradicts')
    return `${quoted(rule)} ${never}: rule ${by} has the same conditions and the stricter verdict \`${other.verdict}\`.`
  return `${quoted(rule)} ${never}: rule ${by} matches every call that it matches, and is at least as strict.`
}

/** Returns a call that both rules match, as `decide` says. Returns null if no such call was found. */
function* sharedCall(
  rule: StoredRule,
  other: StoredRule,
  { externalTools, ...tools }: Analyzed,
): Generator<null, ExampleCall | null> {
  const compiled: CompiledRule[] = []
  for (const each of [rule, other]) {
    const made = compileRule(each)
    if (made !== null) compiled.push(made)
    yield null
  }
  const policy = joinRules(tools.facts, {
    rules: compiled,
    labelRules: [],
    approvalsEnabled: true,
    externalTools,
  })
  const tries = new Tries()
  for (const draft of yield* quietly(witnessesOf(rule, tools))) {
    const example = exampleOf(draft, tools)
    const call = example === null ? null : callOf(example)
    if (call !== null && tries.decide(policy, call)?.matchedRules.length === 2) return example
    yield null
  }
  return null
}

/** Yields null for each step of the search. */
function* quietly<T>(search: Generator<unknown, T>): Generator<null, T> {
  for (;;) {
    const { done, value } = search.next()
    if (done === true) return value
    yield null
  }
}
