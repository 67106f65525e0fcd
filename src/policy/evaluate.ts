import { type Budget, BudgetExceeded } from './budget.ts'
import type { ParamCondition } from './condition.ts'
import { alsoByAddress } from './addresses.ts'
import { type Matcher, compileMatcher, quantify } from './operators.ts'
import type { RuleBody } from './rule.ts'
import { maybe, no, type Tri, tri, yes } from './tri.ts'
import type { Label } from './types.ts'
import { type Found, type Partial, find } from './values.ts'

/** Labels as far as they are known; in a concrete call both sets are the same one. */
export interface LabelSets {
  readonly definite: ReadonlySet<Label>
  readonly possible: ReadonlySet<Label>
  /** Labels beyond `possible` cannot be excluded (values that bring labels of their own). */
  readonly isOpen: boolean
}

/** From a parameter's dotted path to the labels of the sources it was built from. */
export type Origins = ReadonlyMap<string, LabelSets>

/** One call under evaluation; finds each path and counts each comparison once for all rules. */
export interface Subject {
  readonly params: Partial
  readonly labels: LabelSets
  /** null: not tracked, so any parameter may be built from anything that gave the call its labels (agents). */
  readonly origins: Origins | null
  readonly budget: Budget
  /** What each path leads to, or why that cannot be told. */
  readonly found: Map<string, Found | Error>
}

/** What rules and label rules have in common. */
export interface Conditions {
  readonly labels: RuleBody['labels']
  /** null if they cannot be read: evaluating that throws, and so restricts. */
  readonly params: readonly CompiledCondition[] | null
  readonly isRestrictive: boolean
}

export interface CompiledCondition {
  readonly source: ParamCondition
  readonly path: readonly string[]
  /** null for `exists` and `from_label`, which compare no values. */
  readonly matcher: Matcher | null
}

/** Throws TypeError for a condition that no schema would have let through. */
export function compileCondition(source: ParamCondition, isRestrictive: boolean): CompiledCondition {
  if (typeof source.param !== 'string') throw new TypeError('a condition names its parameter')
  const path = source.param.split('.')
  if (source.operator === 'exists' || source.operator === 'from_label') return { source, path, matcher: null }
  const matcher = compileMatcher(source.operator, source.value, isRestrictive)
  return {
    source,
    path,
    matcher: isRestrictive ? alsoByAddress(matcher, source.operator, source.value) : matcher,
  }
}

/**
 * Whether all conditions on labels and parameters hold. What cannot be evaluated counts as matching if it restricts
 * (contract section 5). Throws BudgetExceeded only.
 */
export function evaluate(conditions: Conditions, subject: Subject): Tri {
  try {
    let result: Tri = conditions.labels === undefined ? yes : ofLabels(conditions.labels, subject.labels)
    if (conditions.params === null) throw new TypeError('conditions cannot be read')
    for (const condition of conditions.params) {
      if (result === no) return no
      const each = ofCondition(condition, conditions.isRestrictive, subject)
      if (each < result) result = each
    }
    return result
  } catch (error) {
    if (error instanceof BudgetExceeded) throw error
    return tri(conditions.isRestrictive)
  }
}

function ofLabels(wanted: NonNullable<RuleBody['labels']>, labels: LabelSets): Tri {
  let result: Tri = yes
  if (wanted.any_of !== undefined) result = least(result, anyOf(wanted.any_of, labels))
  for (const label of wanted.all_of ?? []) result = least(result, anyOf([label], labels))
  if (wanted.none_of !== undefined) result = least(result, not(anyOf(wanted.none_of, labels)))
  return result
}

function ofCondition(condition: CompiledCondition, isRestrictive: boolean, subject: Subject): Tri {
  const { source, matcher } = condition
  const found = lookUp(condition, subject)
  if (source.operator === 'exists') return presence(found, source.value, isRestrictive)
  if (source.operator === 'from_label') return origin(condition, found, source.value, isRestrictive, subject)
  if (matcher === null) throw new TypeError(`operator \`${source.operator}\` cannot be evaluated`)
  return quantify(matcher, found, isRestrictive, subject.budget)
}

function lookUp(condition: CompiledCondition, subject: Subject): Found {
  let found = subject.found.get(condition.source.param)
  if (found === undefined) {
    subject.budget.spend(1)
    try {
      found = find(subject.params, condition.path)
    } catch (error) {
      found = error instanceof Error ? error : new Error(String(error))
    }
    subject.found.set(condition.source.param, found)
    subject.budget.spend(found instanceof Error ? 0 : found.leaves.length)
  }
  subject.budget.spend(1)
  if (found instanceof Error) throw found
  return found
}

/** A list's elements that lack the path count for both sides: a restrictive rule takes the side that restricts. */
function presence(found: Found, wanted: boolean, isRestrictive: boolean): Tri {
  const isThere = found.isThere ? yes : found.mayBeThere ? maybe : no
  if (wanted === isRestrictive) return wanted ? isThere : not(isThere)
  const isComplete = found.isMissing ? no : found.mayBeMissing ? maybe : yes
  return wanted ? least(isThere, isComplete) : not(least(isThere, isComplete))
}

function origin(
  condition: CompiledCondition,
  found: Found,
  wanted: readonly Label[],
  isRestrictive: boolean,
  subject: Subject,
): Tri {
  if (subject.origins === null) {
    const isThere = found.isThere ? yes : found.mayBeThere ? maybe : no
    return least(isThere, anyOf(wanted, subject.labels))
  }
  let any: Tri = no
  let all: Tri = yes
  for (const [path, labels] of subject.origins) {
    if (!overlaps(condition.path, path === '' ? [] : path.split('.'))) continue
    subject.budget.spend(1)
    const each = anyOf(wanted, labels)
    if (each > any) any = each
    all = least(all, each)
  }
  return isRestrictive ? any : least(any, all)
}

/** Whether one path lies on the way of the other; list positions may be left out of the rule's. */
function overlaps(rule: readonly string[], built: readonly string[]): boolean {
  let r = 0
  let b = 0
  while (r < rule.length && b < built.length) {
    if (rule[r] === '*' || rule[r] === built[b]) r++
    else if (!isPosition(built[b]) || isPosition(rule[r])) return false
    b++
  }
  return true
}

function isPosition(segment: string | undefined): boolean {
  return segment !== undefined && /^\d+$/.test(segment)
}

function anyOf(wanted: readonly Label[], labels: LabelSets): Tri {
  if (wanted.some((label) => labels.definite.has(label))) return yes
  return labels.isOpen || wanted.some((label) => labels.possible.has(label)) ? maybe : no
}

function least(a: Tri, b: Tri): Tri {
  return a < b ? a : b
}

function not(value: Tri): Tri {
  return value === yes ? no : value === no ? yes : maybe
}
