import { z } from 'zod'
import { exactTime } from './units.ts'
import type { Decided } from './decide.ts'
import { implies, type Matching } from './implication.ts'
import { ruleSchemas, type LabelRuleBody, type RuleBody } from './rule.ts'
import { askedWords, coverPeople, coverSeats, seatsOf, strictest } from './seats.ts'
import { list, quote } from './text.ts'
import type { ToolFacts } from './tool-facts.ts'
import { Steps, rank } from './types.ts'

/*
 * Whether a change of a rule leaves every call decided as strictly as before. An empty list is a proof; a sentence says
 * which part could not be shown to be as strict. test/policy/strictness.test.ts compares the answers with `decide`.
 */

/** Comparisons for one change. They are made while decisions wait, so they are few. */
const mostSteps = 200_000

export interface RuleChange<Body> {
  /** null if there is none. */
  readonly before: Body | null
  readonly after: Body | null
  /** All other saved rules. */
  readonly others: readonly Body[]
  /** Those of them that surely stay, so that they can take the place of `before`. Default: `others`. */
  readonly staying?: readonly Body[]
}

export interface Terms {
  readonly facts: ToolFacts
  /** The least number of people who approve. */
  readonly threshold: number
  /** The shortest time that an approval waits if no rule says how long. */
  readonly usualSeconds: number
  /** Some calls of agents pass only where a rule allows them. */
  readonly agentsNeedRule?: boolean
}

/** An `allow` rule changes no verdict, unless calls of agents need one: see `whyAllows`. */
const restricts = (rule: RuleBody | null): rule is RuleBody =>
  rule !== null && rule.status !== 'inactive' && rule.status !== 'shadow' && rule.verdict !== 'allow'

export const holdsCalls = (rule: RuleBody): boolean => restricts(rule) && rule.verdict === 'require_approval'

export function whyLooserRule(
  { before, after, others, staying = others }: RuleChange<RuleBody>,
  { facts, threshold, usualSeconds, agentsNeedRule = false }: Terms,
): string[] {
  const steps = new Steps(mostSteps)
  const isSound = (rule: RuleBody): boolean => isReadable('rule', rule, facts)
  const active = (rules: readonly RuleBody[]) => rules.filter((rule) => restricts(rule) && isSound(rule))
  const isSoundRule = (rule: RuleBody | null): rule is RuleBody => rule !== null && isSound(rule)
  const own = restricts(after) ? after : null
  const found = [
    ...(restricts(before) ? whyWeaker(before, own, active(staying), { threshold, steps, isSound }) : []),
    ...(own === null ? [] : whyWeakens(own, before, active(others), { threshold, usualSeconds })),
    ...(agentsNeedRule ? whyAllows(after, [before, ...staying].filter(isSoundRule), steps) : []),
  ]
  if (found.length === 0 || own?.verdict !== 'require_approval') return found
  // Whoever decides about it reads what the rule asks for, so they also read what others take from that.
  const taken = active(others).flatMap((other) =>
    whyWeakens(other, null, [own], { threshold, usualSeconds }).map(
      (reason) => `with ${quote(other.name)}, ${reason}`,
    ),
  )
  return [...found, ...taken]
}

/** Whether it allows calls of agents. */
const allowsAgents = (rule: RuleBody | null): rule is RuleBody =>
  rule !== null &&
  rule.status !== 'inactive' &&
  rule.status !== 'shadow' &&
  rule.verdict === 'allow' &&
  rule.applies_to?.includes('agents') !== false

/** Where calls of agents need a rule that allows them, a new one must match only what another allows already. */
function whyAllows(after: RuleBody | null, kept: readonly RuleBody[], steps: Steps): string[] {
  if (!allowsAgents(after)) return []
  if (kept.some((rule) => allowsAgents(rule) && proven(after, rule, steps))) return []
  return [`${quote(after.name)} allows calls of agents that may need such a rule`]
}

/** The forms of each, and the bodies that were read. Many changes are compared with the same ones, and reading takes long. */
const readers = new WeakMap<ToolFacts, ReturnType<typeof newReader>>()

const newReader = (facts: ToolFacts) => {
  const { ruleShape, labelRuleShape } = ruleSchemas(facts)
  const known = new WeakMap<object, boolean>()
  return { rule: z.object(ruleShape), labelRule: z.object(labelRuleShape), known }
}

/** A damaged condition can match every call, so a damaged rule proves nothing. */
function isReadable(form: 'rule' | 'labelRule', body: object, facts: ToolFacts): boolean {
  const reader = readers.get(facts) ?? newReader(facts)
  readers.set(facts, reader)
  const isSound = reader.known.get(body) ?? reader[form].safeParse(body).success
  reader.known.set(body, isSound)
  return isSound
}

interface Proof {
  readonly threshold: number
  readonly steps: Steps
  readonly isSound: (rule: RuleBody) => boolean
}

/** What `before` asks of its calls must stay: by the rule itself as `after`, or by another one. */
function whyWeaker(
  before: RuleBody,
  after: RuleBody | null,
  others: readonly RuleBody[],
  { threshold, steps, isSound }: Proof,
): string[] {
  const name = quote(before.name)
  if (!isSound(before)) return [`the rule ${name} has a part that cannot be read`]
  const kept = [...(after === null ? [] : [after]), ...others]
  const strict = kept.filter((other) => isAsStrict(other, before, threshold))
  if (strict.some((other) => proven(before, other, steps))) return []
  if (steps.areUsedUp) return ['the rules are too large to be compared in bounded time']
  const does = before.verdict === 'deny' ? 'denies' : 'holds'
  if (after === null) return [`no other active rule surely ${does} all calls that ${name} ${does} now`]
  if (rank[after.verdict] < rank[before.verdict]) return [`calls that ${name} denies now would only be held`]
  if (!isAsStrict(after, before, threshold)) return [termsWords(before, after)]
  const parts = matchingParts.filter(
    (part) =>
      !proven(before, { ...before, verdict: after.verdict, [part]: after[part] }, new Steps(mostSteps)),
  )
  const named = list((parts.length === 0 ? ['conditions'] : parts).map(quote), 'and', matchingParts.length)
  return [`with its new ${named}, ${name} may match fewer calls than now`]
}

const matchingParts = ['tools', 'side_effects', 'labels', 'params', 'applies_to', 'classed'] as const

function proven(narrow: Matching, wide: Matching, steps: Steps): boolean {
  const proof = implies(narrow, wide, steps)
  for (;;) {
    const { done, value } = proof.next()
    if (done === true) return value
  }
}

/** If both match a call, `other` asks for as much. */
function isAsStrict(other: RuleBody, rule: RuleBody, threshold: number): boolean {
  if (rank[other.verdict] !== rank[rule.verdict]) return rank[other.verdict] > rank[rule.verdict]
  if (rule.verdict !== 'require_approval') return true
  const [own, asked] = [seatsOf(other), seatsOf(rule)]
  return (
    isAsShort(other.expires_after_seconds, rule.expires_after_seconds) &&
    letsEditMore(other.approver_may_edit, rule.approver_may_edit).length === 0 &&
    coverSeats(own, asked) &&
    coverPeople(own, asked, threshold)
  )
}

/** 0 is never. Without a time it is not known here. */
const isAsShort = (own: number | undefined, asked: number | undefined): boolean =>
  own === asked || asked === 0 || (own !== undefined && asked !== undefined && own > 0 && own <= asked)

const letsEditMore = (own: readonly string[] = [], asked: readonly string[] = []): readonly string[] =>
  own.filter((name) => !asked.includes(name))

function termsWords(before: RuleBody, after: RuleBody): string {
  const more = letsEditMore(after.approver_may_edit, before.approver_may_edit)
  if (more.length > 0) return `an approver may also edit ${list(more.map(quote), 'and')}`
  const words = (rule: RuleBody): string => askedWords(seatsOf(rule), 'counted')
  const time = ({ expires_after_seconds: seconds }: RuleBody): string =>
    seconds === undefined ? 'the usual time' : seconds === 0 ? 'for ever' : exactTime(seconds)
  const [asked, own] = [words(before), words(after)]
  return asked === own
    ? `an approval would wait ${time(after)} in place of ${time(before)}`
    : `an approval by ${own} may be less than one by ${asked}`
}

/**
 * A rule that holds can weaken others that hold the same call: with a seat more, the people beyond one for each seat may
 * come from any seat, and a time takes the place of the usual one.
 */
function whyWeakens(
  rule: RuleBody,
  before: RuleBody | null,
  others: readonly RuleBody[],
  { threshold, usualSeconds }: Pick<Terms, 'threshold' | 'usualSeconds'>,
): string[] {
  if (rule.verdict !== 'require_approval') return []
  const { expires_after_seconds: seconds } = rule
  const keeps = (...parts: readonly (keyof RuleBody)[]): boolean =>
    restricts(before) &&
    [...matchingParts, 'verdict' as const, ...parts].every(
      (part) => JSON.stringify(before[part]) === JSON.stringify(rule[part]),
    )
  const mayWaitLonger =
    !keeps('expires_after_seconds') && seconds !== undefined && (seconds === 0 || seconds > usualSeconds)
  const met = others.filter((other) => other.verdict === 'require_approval' && mayMeet(rule, other))
  const keepsSeats = keeps('approver', 'approvals_needed', 'approvers', 'escalate')
  const mixed = met.filter((other) => {
    if (keepsSeats) return false
    const asked = seatsOf(other)
    return !coverPeople(strictest([...asked, ...seatsOf(rule)]), asked, threshold)
  })
  const untimed = mayWaitLonger ? met.filter((other) => other.expires_after_seconds === undefined) : []
  return [
    ...mixed.map(
      ({ name }) => `of ${threshold} people, fewer would have to be those that ${quote(name)} asks for`,
    ),
    ...untimed.map(
      ({ name }) => `an approval that ${quote(name)} asks for too may wait longer than the usual time`,
    ),
  ]
}

/** Compares two decisions of one call. */
export function isDecidedAsStrictly(
  after: Decided,
  before: Decided,
  { threshold, usualSeconds }: Pick<Terms, 'threshold' | 'usualSeconds'>,
): boolean {
  if (rank[after.verdict] !== rank[before.verdict]) return rank[after.verdict] > rank[before.verdict]
  if (before.verdict !== 'require_approval') return true
  const waits = (seconds: number | null): number => (seconds === 0 ? Infinity : (seconds ?? usualSeconds))
  return (
    waits(after.expiresAfterSeconds) <= waits(before.expiresAfterSeconds) &&
    letsEditMore(after.mayEdit, before.mayEdit).length === 0 &&
    coverPeople(after.seats, before.seats, threshold)
  )
}

/** false only if no call matches both. */
function mayMeet(one: RuleBody, other: RuleBody): boolean {
  const meet = (a: readonly string[] | undefined, b: readonly string[] | undefined): boolean =>
    a === undefined || b === undefined || a.some((each) => b.includes(each))
  const isPlain = (tools: readonly string[] | undefined): boolean =>
    tools?.every((tool) => !/[*?]/.test(tool)) === true
  return (
    meet(one.applies_to, other.applies_to) &&
    meet(one.side_effects, other.side_effects) &&
    (!isPlain(one.tools) || !isPlain(other.tools) || meet(one.tools, other.tools))
  )
}

/** `rules`: all saved rules, one of which may stop matching if a label is added. */
export function whyLooserLabelRule(
  { before, after, others, staying = others }: RuleChange<LabelRuleBody>,
  rules: readonly RuleBody[],
  { facts }: Pick<Terms, 'facts'>,
): string[] {
  const isActive = (rule: LabelRuleBody | null): rule is LabelRuleBody => rule?.status === 'active'
  const [own, kept] = [isActive(after) ? [after] : [], others.filter(isActive)]
  const steps = new Steps(mostSteps)
  const adds = (rule: LabelRuleBody, all: readonly string[]): boolean =>
    all.every((label) => rule.add_labels.includes(label))
  // As in `compileLabelRule`, one matching element of a list is enough.
  const matching = ({ tools, params, labels }: LabelRuleBody): Matching => ({
    verdict: 'deny',
    ...(tools === undefined ? {} : { tools }),
    ...(params === undefined ? {} : { params }),
    ...(labels === undefined ? {} : { labels }),
  })
  const isKept =
    !isActive(before) ||
    (isReadable('labelRule', before, facts) &&
      [...own, ...staying.filter(isActive)].some(
        (rule) =>
          isReadable('labelRule', rule, facts) &&
          adds(rule, before.add_labels) &&
          proven(matching(before), matching(rule), steps),
      ))
  // Labels that the same data gets now let no further call escape.
  const known = new Set(
    own.every((rule) => isActive(before) && proven(matching(rule), matching(before), steps))
      ? before?.add_labels
      : [],
  )
  const added = withFollowing(
    own.flatMap((rule) => rule.add_labels.filter((label) => !known.has(label))),
    [...kept, ...own],
  )
  const escaping = [...rules.filter(restricts), ...kept, ...own].flatMap(({ name, labels }) => {
    const excluded = labels?.none_of?.filter((label) => added.has(label)) ?? []
    return excluded.map((label) => `${quote(name)} would no longer match data labelled ${quote(label)}`)
  })
  return [
    ...(isKept ? [] : [`data that ${quote(before.name)} labels now may stay without the label`]),
    ...escaping,
  ]
}

/** With what the label rules add to data that has one of the labels. */
function withFollowing(labels: readonly string[], rules: readonly LabelRuleBody[]): ReadonlySet<string> {
  const found = new Set(labels)
  for (let size = -1; size < found.size;) {
    size = found.size
    for (const rule of rules)
      if (readsOf(rule).some((label) => found.has(label)))
        for (const label of rule.add_labels) found.add(label)
  }
  return found
}

/** The active label rules that can add one of the labels, or what one of these rules matches by. */
export function labelRulesBehind(
  labels: readonly string[],
  rules: readonly LabelRuleBody[],
): readonly LabelRuleBody[] {
  const wanted = new Set(labels)
  const found = new Set<LabelRuleBody>()
  for (let size = -1; size < found.size;) {
    size = found.size
    for (const rule of rules) {
      if (rule.status !== 'active' || !rule.add_labels.some((label) => wanted.has(label))) continue
      found.add(rule)
      for (const label of readsOf(rule)) wanted.add(label)
    }
  }
  return [...found]
}

/** Labels with which it matches more data. */
const readsOf = ({ labels, params = [] }: LabelRuleBody): readonly string[] =>
  [
    ...(labels?.any_of ?? []),
    ...(labels?.all_of ?? []),
    ...params.flatMap(({ operator, value }) => (operator === 'from_label' ? [value].flat() : [])),
  ].map(String)
