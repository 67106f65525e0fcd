import type { ParamCondition } from './condition.ts'
import { isWithinGlob, stepsWithin } from './glob.ts'
import { ruleDomain } from './readers/hosts.ts'
import type { RuleBody } from './rule.ts'
import type { Steps } from './steps.ts'

/*
 * Tries to prove that a rule matches every call that another rule matches. The answer `true` is always right. The
 * answer `false` only means that no proof was found. test/policy/rule-analysis.test.ts compares the answers with `decide`
 * for random rules and calls.
 *
 * The proof compares field by field, and condition by condition. It covers calls that the service accepts. The
 * parameters of such a call have at most 64 nested levels, so every condition can be evaluated.
 */

/** The fields of a rule that say which calls it matches. */
export type Matching = Pick<
  RuleBody,
  'verdict' | 'side_effects' | 'tools' | 'labels' | 'params' | 'applies_to' | 'classed'
>

/** Returns whether `wide` certainly matches each call that `narrow` matches. Yields null when a pause is due. */
export function* implies(narrow: Matching, wide: Matching, steps: Steps): Generator<null, boolean> {
  // In an `allow` rule, every element of a list must fit. In other rules, one fitting element is enough. So a match of
  // another rule does not prove a match of an `allow` rule.
  if (narrow.verdict !== 'allow' && wide.verdict === 'allow') return false
  const isPossible =
    isPart(narrow.side_effects, wide.side_effects, everySideEffect) &&
    isPart(narrow.applies_to, wide.applies_to, everySource) &&
    (wide.classed === undefined || narrow.classed !== undefined) &&
    labelsImply(narrow.labels, wide.labels, steps)
  if (!isPossible || !(yield* toolsWithin(narrow.tools, wide.tools, steps))) return false
  for (const condition of wide.params ?? [])
    if (!(yield* paramsImply(narrow, condition, wide, steps))) return false
  return true
}

const everySideEffect = ['read', 'write', 'egress'] as const
const everySource = ['workflows', 'agents'] as const

function isPart<T>(
  narrow: readonly T[] | undefined,
  wide: readonly T[] | undefined,
  all: readonly T[],
): boolean {
  return wide === undefined || (narrow ?? all).every((each) => wide.includes(each))
}

function* toolsWithin(
  narrow: Matching['tools'],
  wide: Matching['tools'],
  steps: Steps,
): Generator<null, boolean> {
  if (wide === undefined) return true
  if (narrow === undefined) return wide.includes('*')
  for (const glob of narrow) if (!(yield* isWithinOne(glob, wide, steps))) return false
  return true
}

function* isWithinOne(glob: string, others: readonly string[], steps: Steps): Generator<null, boolean> {
  for (const other of others) {
    if (!steps.take(stepsWithin(glob, other))) return false
    if (isWithinGlob(glob, other)) return true
    if (steps.isPauseDue()) yield null
  }
  return false
}

function labelsImply(narrow: Matching['labels'], wide: Matching['labels'], steps: Steps): boolean {
  if (wide === undefined) return true
  const { any_of: any, all_of: all = [], none_of: none = [] } = narrow ?? {}
  if (!steps.take(sizeOf(narrow) + sizeOf(wide))) return false
  const [wideAny, certain, excluded] = [new Set(wide.any_of), new Set(all), new Set(none)]
  // The call has at least one of these labels. It cannot be a label of `none_of`.
  const possible = any?.filter((label) => !excluded.has(label)) ?? []
  const [only] = possible
  if (possible.length === 1 && only !== undefined) certain.add(only)
  const hasAny =
    wide.any_of === undefined ||
    [...certain].some((label) => wideAny.has(label)) ||
    (possible.length > 0 && possible.every((label) => wideAny.has(label)))
  return (
    hasAny &&
    (wide.all_of ?? []).every((label) => certain.has(label)) &&
    (wide.none_of ?? []).every((label) => excluded.has(label))
  )
}

const sizeOf = (labels: Matching['labels']): number =>
  1 + Object.values(labels ?? {}).reduce((sum, list) => sum + (list?.length ?? 0), 0)

function* paramsImply(
  narrow: Matching,
  condition: ParamCondition,
  wide: Matching,
  steps: Steps,
): Generator<null, boolean> {
  for (const each of narrow.params ?? []) {
    if (!steps.take()) return false
    if (
      isAtSamePlace(each, condition, wide) &&
      conditionImplies(each, condition, wide.verdict === 'allow', steps)
    )
      return true
    if (steps.isPauseDue()) yield null
  }
  return false
}

const isNegative = ({ operator }: ParamCondition): boolean =>
  operator === 'not_in' || operator === 'domain_not_in'

/**
 * Whether `wide` reads all values that `narrow` reads. `*` reads all values of all parameters. In a rule that
 * restricts, one fitting value is enough. So a fitting value of one parameter also fits `*`. This is not certain for
 * paths with a dot, for `exists` and `from_label`, and for operators that fit absent values.
 */
const isAtSamePlace = (narrow: ParamCondition, wide: ParamCondition, { verdict }: Matching): boolean =>
  narrow.param === wide.param ||
  (wide.param === '*' &&
    verdict !== 'allow' &&
    !narrow.param.includes('.') &&
    !isNegative(narrow) &&
    narrow.operator !== 'exists' &&
    narrow.operator !== 'from_label')

/**
 * Whether a value that fits `narrow` also fits `wide`. Both conditions read the same values. `isAllow` means that both
 * conditions belong to `allow` rules.
 */
function conditionImplies(
  narrow: ParamCondition,
  wide: ParamCondition,
  isAllow: boolean,
  steps: Steps,
): boolean {
  const [inner, outer] = [listOf(narrow), listOf(wide)]
  if (narrow.operator === 'exists' || wide.operator === 'exists')
    return narrow.operator === wide.operator && narrow.value === wide.value
  if (!steps.take(inner.length + outer.length)) return false
  if (narrow.operator === 'domain_in' && wide.operator === 'domain_in')
    return domainsWithin(inner, outer, isAllow, steps)
  if (narrow.operator !== wide.operator && !(isEquality(narrow) && isEquality(wide))) return false
  // `startswith` compares with one text, and the other operators with the values of a list.
  return isNegative(narrow) ? isSubset(outer, inner) : isSubset(inner, outer)
}

const isEquality = ({ operator }: ParamCondition): boolean => operator === 'equals' || operator === 'in'

const listOf = ({ value }: ParamCondition): readonly unknown[] => (Array.isArray(value) ? value : [value])

function isSubset(part: readonly unknown[], whole: readonly unknown[]): boolean {
  if (part.length === 1) return whole.includes(part[0])
  const values = new Set(whole)
  return part.every((each) => values.has(each))
}

/**
 * In rules that restrict, a domain also covers every domain below it. In `allow` rules, a domain covers only domains of
 * the same owner. So a domain below it is not certainly covered.
 */
function domainsWithin(
  inner: readonly unknown[],
  outer: readonly unknown[],
  isAllow: boolean,
  steps: Steps,
): boolean {
  if (isSubset(inner, outer)) return true
  if (isAllow || !steps.take((inner.length + outer.length) * stepsOfDomain)) return false
  const above = new Set(outer.map(domainOf))
  return inner.every((value) => {
    const domain = domainOf(value)
    return domain !== null && withParents(domain).some((each) => above.has(each))
  })
}

/** It takes about as long to read a domain as to make this many comparisons. */
const stepsOfDomain = 10

function domainOf(value: unknown): string | null {
  const read = ruleDomain(String(value))
  return 'domain' in read ? read.domain : null
}

/** Returns the domain and all domains above it. Example: `a.b.c`, `b.c` and `c`. */
function withParents(domain: string): string[] {
  const parts = domain.split('.')
  return parts.map((_, at) => parts.slice(at).join('.'))
}
