import { BudgetExceeded } from './budget.ts'
import { allOf, anyOf } from './label-sets.ts'
import { type Matcher, quantify } from './operators/matcher.ts'
import { inRules, type ParamCondition } from './operators/index.ts'
import { listOf, type Scalar, type Test, type TestedCall } from './operators/operator.ts'
import type { RuleBody } from './rule.ts'
import { destinationParam } from './tool-facts.ts'
import { least, no, not, type Tri, tri, yes } from './tri.ts'
import type { Label } from './types.ts'
import { type Defaults, type Found, type Hole, type Partial, type Places, find } from './values.ts'

/** One call. The values at a path are searched, and paid for, only once for all rules. */
export interface Subject extends TestedCall {
  readonly params: Partial
  readonly places: Places
  readonly defaults: Defaults
  /** Null: the call stays here; a hole: not known yet; undefined: a call of an agent, with a parameter of its own. */
  readonly destination: string | null | Hole | undefined
  /** Calls with the same labels may share this map. */
  readonly byLabels: Map<LabelConditions, Tri>
  /** What the search at each path found, or threw. */
  readonly found: Map<string, Found | Error>
}

export interface Conditions {
  /** Undefined: none. Null: unreadable, so a restrictive rule matches all that it covers, an `allow` rule nothing. */
  readonly labels: LabelConditions | null | undefined
  readonly params: readonly CompiledCondition[] | null
  readonly isRestrictive: boolean
}

export interface LabelConditions {
  readonly anyOf: ReadonlySet<Label> | null
  readonly allOf: ReadonlySet<Label> | null
  readonly noneOf: ReadonlySet<Label> | null
}

/** Conditions that compare values have a matcher, which `quantify` asks. */
export type CompiledCondition = {
  readonly source: ParamCondition
  readonly path: readonly string[]
} & ({ readonly matcher: Matcher; readonly test: null } | { readonly matcher: null; readonly test: Test })

/** Throws TypeError if a list of labels is none, e.g. after damage in the database. */
export function compileLabels(labels: RuleBody['labels']): LabelConditions | undefined {
  if (labels === undefined) return undefined
  const setOf = (list: readonly Label[] | undefined): ReadonlySet<Label> | null => {
    if (list === undefined) return null
    if (!Array.isArray(list)) throw new TypeError('labels must be a list')
    return new Set(list)
  }
  return { anyOf: setOf(labels.any_of), allOf: setOf(labels.all_of), noneOf: setOf(labels.none_of) }
}

/** Throws TypeError for a condition that the schema refuses, e.g. after damage in the database. */
export function compileCondition(source: ParamCondition, isRestrictive: boolean): CompiledCondition {
  if (typeof source.param !== 'string') throw new TypeError('a condition must name its parameter')
  const path = source.param.split('.')
  const operator = inRules(source.operator)
  const place = { param: source.param, path, isRestrictive }
  const values = listOf<Scalar>(source.value)
  return operator.reads === 'values'
    ? { source, path, matcher: operator.compile(values, place), test: null }
    : { source, path, matcher: null, test: operator.compile(values, place) }
}

/** What cannot be evaluated holds in a restrictive rule, not in an `allow` rule. Throws only BudgetExceeded. */
export function evaluate(conditions: Conditions, subject: Subject): Tri {
  try {
    if (!isUnconditional(conditions)) subject.budget.spend(1)
    if (conditions.labels === null) throw new TypeError('labels cannot be read')
    let result: Tri = conditions.labels === undefined ? yes : matchLabels(conditions.labels, subject)
    if (conditions.params === null) throw new TypeError('conditions cannot be read')
    for (const condition of conditions.params) {
      if (result === no) return no
      const each = matchCondition(condition, conditions.isRestrictive, subject)
      if (each < result) result = each
    }
    return result
  } catch (error) {
    if (error instanceof BudgetExceeded) throw error
    return tri(conditions.isRestrictive)
  }
}

/** Each condition by itself, for explanations. Throws BudgetExceeded, or what a condition throws. */
export function evaluateEach(
  conditions: Conditions,
  subject: Subject,
): { readonly labels: Record<'any_of' | 'all_of' | 'none_of', Tri>; readonly params: readonly Tri[] } {
  const {
    anyOf: any,
    allOf: all,
    noneOf: none,
  } = conditions.labels ?? { anyOf: null, allOf: null, noneOf: null }
  const { labels, budget } = subject
  return {
    labels: {
      any_of: any === null ? yes : anyOf(any, labels, budget),
      all_of: all === null ? yes : allOf(all, labels, budget),
      none_of: none === null ? yes : not(anyOf(none, labels, budget)),
    },
    params: (conditions.params ?? []).map((each) => matchCondition(each, conditions.isRestrictive, subject)),
  }
}

/** It matches every call that it covers, and costs no budget. */
export function isUnconditional(conditions: Conditions): boolean {
  return conditions.labels === undefined && conditions.params?.length === 0
}

function matchLabels(wanted: LabelConditions, { labels, budget, byLabels }: Subject): Tri {
  const known = byLabels.get(wanted)
  if (known !== undefined) return known
  let result: Tri = wanted.anyOf === null ? yes : anyOf(wanted.anyOf, labels, budget)
  if (wanted.allOf !== null && result !== no) result = least(result, allOf(wanted.allOf, labels, budget))
  if (wanted.noneOf !== null && result !== no)
    result = least(result, not(anyOf(wanted.noneOf, labels, budget)))
  byLabels.set(wanted, result)
  return result
}

function matchCondition(condition: CompiledCondition, isRestrictive: boolean, subject: Subject): Tri {
  const { matcher, test } = condition
  const found = lookUp(condition, subject)
  return matcher === null ? test(found, subject) : quantify(matcher, found, isRestrictive, subject.budget)
}

function lookUp(condition: CompiledCondition, subject: Subject): Found {
  let found = subject.found.get(condition.source.param)
  if (found === undefined) {
    subject.budget.spend(1)
    try {
      found = search(condition, subject)
    } catch (error) {
      if (error instanceof BudgetExceeded) throw error
      found = error instanceof Error ? error : new Error(String(error))
    }
    subject.found.set(condition.source.param, found)
    subject.budget.spend(found instanceof Error ? 0 : found.leaves.length + found.defaults.length)
  }
  subject.budget.spend(1)
  if (found instanceof Error) throw found
  return found
}

function search({ source, path }: CompiledCondition, subject: Subject): Found {
  const { destination, params, places, defaults, budget } = subject
  if (source.param !== destinationParam || destination === undefined)
    return find(params, path, places, defaults, budget)
  return find(destination === null ? {} : { [destinationParam]: destination }, path, null, null, budget)
}
