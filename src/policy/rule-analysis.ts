import { z } from 'zod'
import { type CompiledRule, compileRule, joinRules } from './compile.ts'
import {
  callOf,
  type ExampleCall,
  exampleOf,
  type ExampleTools,
  Tries,
  witnessesOf,
} from './example-calls.ts'
import { quote } from './text.ts'
import type { ExternalTools } from './external-tools.ts'
import { implies } from './implication.ts'
import { contradictions } from './rule-contradictions.ts'
import { ruleSchemas, type StoredRule } from './rule.ts'
import { coverSeats, seatsOf } from './seats.ts'
import { type Steps, rank } from './types.ts'

export const findingKinds = ['never_decides', 'duplicate', 'contradicts', 'matches_nothing'] as const

/** Each finding is proven. */
export interface Finding {
  /**
   * - `matches_nothing`: its own conditions contradict each other.
   * - `duplicate`: another rule has the same conditions and verdict.
   * - `contradicts`: another rule has the same conditions and a stricter verdict.
   * - `never_decides`: another rule is at least as strict, and matches all its calls.
   */
  readonly kind: (typeof findingKinds)[number]
  readonly rule: StoredRule
  /** The rule that decides in its place; null for `matches_nothing`. */
  readonly coveredBy: StoredRule | null
  readonly message: string
  /** A call that both rules match; null if none was found. */
  readonly example: ExampleCall | null
}

/** Yields null often between findings, so that the caller can pause. Ends early when `steps` are used up. */
export function* analyzeRules(
  rules: readonly StoredRule[],
  steps: Steps,
  tools: ExampleTools & { readonly externalTools?: ExternalTools | undefined },
): Generator<Finding | null> {
  // A damaged condition can match every call.
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

/** `other` decides each call that both match, and `rule` makes its approval no stricter. `isEarlier`: in saving. */
function isStricter(other: StoredRule, rule: StoredRule, isEarlier: boolean): boolean {
  if (rank[other.verdict] !== rank[rule.verdict]) return rank[other.verdict] > rank[rule.verdict]
  return isEarlier && (rule.verdict !== 'require_approval' || asksForMore(other, rule))
}

function asksForMore(other: StoredRule, rule: StoredRule): boolean {
  const { expires_after_seconds: time } = rule
  const { expires_after_seconds: otherTime } = other
  const isAsShort =
    time === undefined || (otherTime !== undefined && (time === 0 || (otherTime > 0 && otherTime <= time)))
  const isAsSoon =
    rule.remind_after_seconds === undefined ||
    (other.remind_after_seconds ?? Infinity) <= rule.remind_after_seconds
  const mayEdit = rule.approver_may_edit ?? []
  const isAsClosed = (other.approver_may_edit ?? []).every((name) => mayEdit.includes(name))
  return isAsShort && isAsSoon && isAsClosed && coverSeats(seatsOf(other), seatsOf(rule))
}

/** A verdict also changes what conditions mean, so both are compared as `deny` rules. */
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

/** As `decide` says; null if none was found. */
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

function* quietly<T>(search: Generator<unknown, T>): Generator<null, T> {
  for (;;) {
    const { done, value } = search.next()
    if (done === true) return value
    yield null
  }
}
