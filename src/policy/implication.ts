import { isWithinGlob, stepsWithin } from './glob.ts'
import { inRules, type ParamCondition, wholesOf } from './operators/index.ts'
import { listOf, type Scalar } from './operators/operator.ts'
import type { RuleBody } from './rule.ts'
import type { Steps } from './types.ts'

/*
 * Proofs that a rule matches every call that another matches. `true` is always right; `false` means that no proof was
 * found. They compare field by field and condition by condition, for calls that the service accepts: with at most 64
 * nested levels, so every condition can be evaluated. test/policy/rule-analysis.test.ts compares them with `decide`.
 */

export type Matching = Pick<
  RuleBody,
  'verdict' | 'side_effects' | 'tools' | 'labels' | 'params' | 'applies_to' | 'classed'
>

/** Yields null when a pause is due. */
export function* implies(narrow: Matching, wide: Matching, steps: Steps): Generator<null, boolean> {
  // In an `allow` rule every element must fit, in others one is enough, so these prove no match of it.
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
  // The call has at least one of these labels, which is none of `none_of`.
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

/**
 * Whether `wide` reads all values that `narrow` reads. `*` reads all parameters, and in a rule that restricts one
 * fitting value is enough. This is not certain for paths with a dot, for operators that compare no values, and for
 * those that fit absent values.
 */
function isAtSamePlace(narrow: ParamCondition, wide: ParamCondition, { verdict }: Matching): boolean {
  if (narrow.param === wide.param) return true
  if (wide.param !== '*' || verdict === 'allow' || narrow.param.includes('.')) return false
  const operator = inRules(narrow.operator)
  return operator.reads === 'values' && !operator.fitsAbsent
}

/** Both conditions read the same values, and with `isAllow` belong to `allow` rules. */
function conditionImplies(
  narrow: ParamCondition,
  wide: ParamCondition,
  isAllow: boolean,
  steps: Steps,
): boolean {
  const areListed = [narrow, wide].every(({ operator }) => wholesOf(operator) === 'listed')
  if (narrow.operator !== wide.operator && !areListed) return false
  const [inner, outer] = [listOf<Scalar>(narrow.value), listOf<Scalar>(wide.value)]
  return (
    steps.take(inner.length + outer.length) &&
    inRules(narrow.operator).implies(inner, outer, { isAllow, steps })
  )
}
