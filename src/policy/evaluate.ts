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
  /** What the labels alone say of a rule; may be shared by calls that have the same labels. */
  readonly byLabels: Map<LabelConditions, Tri>
  /** What each path leads to, or why that cannot be told. */
  readonly found: Map<string, Found | Error>
}

/** What rules and label rules have in common. */
export interface Conditions {
  /** undefined: any labels will do. null if they cannot be read, as for `params`. */
  readonly labels: LabelConditions | null | undefined
  /** null if they cannot be read: evaluating that throws, and so restricts. */
  readonly params: readonly CompiledCondition[] | null
  readonly isRestrictive: boolean
}

export interface LabelConditions {
  readonly anyOf: ReadonlySet<Label> | null
  readonly allOf: ReadonlySet<Label> | null
  readonly noneOf: ReadonlySet<Label> | null
}

export interface CompiledCondition {
  readonly source: ParamCondition
  readonly path: readonly string[]
  /** null for `exists` and `from_label`, which compare no values. */
  readonly matcher: Matcher | null
  /** Labels that `from_label` asks for; null for the others. */
  readonly wanted: ReadonlySet<Label> | null
}

/** Throws TypeError for what no schema would have let through. */
export function compileLabels(labels: RuleBody['labels']): LabelConditions | undefined {
  if (labels === undefined) return undefined
  const setOf = (list: readonly Label[] | undefined): ReadonlySet<Label> | null => {
    if (list === undefined) return null
    if (!Array.isArray(list)) throw new TypeError('labels are a list')
    return new Set(list)
  }
  return { anyOf: setOf(labels.any_of), allOf: setOf(labels.all_of), noneOf: setOf(labels.none_of) }
}

/** Throws TypeError for a condition that no schema would have let through. */
export function compileCondition(source: ParamCondition, isRestrictive: boolean): CompiledCondition {
  if (typeof source.param !== 'string') throw new TypeError('a condition names its parameter')
  const path = source.param.split('.')
  if (source.operator === 'exists') return { source, path, matcher: null, wanted: null }
  if (source.operator === 'from_label') return { source, path, matcher: null, wanted: new Set(source.value) }
  const matcher = compileMatcher(source.operator, source.value, isRestrictive)
  return {
    source,
    path,
    matcher: isRestrictive ? alsoByAddress(matcher, source.operator, source.value) : matcher,
    wanted: null,
  }
}

/**
 * Whether all conditions on labels and parameters hold. What cannot be evaluated counts as matching if it restricts
 * (contract section 5). A rule with conditions costs one look, and each label that is tested one more. Throws
 * BudgetExceeded only.
 */
export function evaluate(conditions: Conditions, subject: Subject): Tri {
  try {
    if (!isUnconditional(conditions)) subject.budget.spend(1)
    if (conditions.labels === null) throw new TypeError('labels cannot be read')
    let result: Tri = conditions.labels === undefined ? yes : ofLabels(conditions.labels, subject)
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

/** Such a rule matches every call that it covers, whatever else there was to compare. */
export function isUnconditional(conditions: Conditions): boolean {
  return conditions.labels === undefined && conditions.params?.length === 0
}

function ofLabels(wanted: LabelConditions, { labels, budget, byLabels }: Subject): Tri {
  const known = byLabels.get(wanted)
  if (known !== undefined) return known
  let result: Tri = wanted.anyOf === null ? yes : anyOf(wanted.anyOf, labels, budget)
  if (wanted.allOf !== null && result !== no) result = least(result, allOf(wanted.allOf, labels, budget))
  if (wanted.noneOf !== null && result !== no)
    result = least(result, not(anyOf(wanted.noneOf, labels, budget)))
  byLabels.set(wanted, result)
  return result
}

function ofCondition(condition: CompiledCondition, isRestrictive: boolean, subject: Subject): Tri {
  const { source, matcher, wanted } = condition
  const found = lookUp(condition, subject)
  if (source.operator === 'exists') return presence(found, source.value, isRestrictive)
  if (wanted !== null) return origin(condition, found, wanted, isRestrictive, subject)
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
  wanted: ReadonlySet<Label>,
  isRestrictive: boolean,
  subject: Subject,
): Tri {
  if (subject.origins === null) {
    const isThere = found.isThere ? yes : found.mayBeThere ? maybe : no
    return least(isThere, anyOf(wanted, subject.labels, subject.budget))
  }
  let any: Tri = no
  let all: Tri = yes
  for (const [path, labels] of subject.origins) {
    subject.budget.spend(1)
    if (!overlaps(condition.path, path === '' ? [] : path.split('.'))) continue
    const each = anyOf(wanted, labels, subject.budget)
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

function anyOf(wanted: ReadonlySet<Label>, labels: LabelSets, budget: Budget): Tri {
  if (meet(wanted, labels.definite, budget)) return yes
  if (labels.isOpen) return maybe
  return labels.possible !== labels.definite && meet(wanted, labels.possible, budget) ? maybe : no
}

function allOf(wanted: ReadonlySet<Label>, labels: LabelSets, budget: Budget): Tri {
  if (isWithin(wanted, labels.definite, budget)) return yes
  if (labels.isOpen) return maybe
  return labels.possible !== labels.definite && isWithin(wanted, labels.possible, budget) ? maybe : no
}

/** Costs the labels of the smaller set. */
function meet(a: ReadonlySet<Label>, b: ReadonlySet<Label>, budget: Budget): boolean {
  const [few, many] = a.size < b.size ? [a, b] : [b, a]
  budget.spend(few.size)
  for (const label of few) if (many.has(label)) return true
  return false
}

function isWithin(part: ReadonlySet<Label>, whole: ReadonlySet<Label>, budget: Budget): boolean {
  if (part.size > whole.size) return false
  budget.spend(part.size)
  for (const label of part) if (!whole.has(label)) return false
  return true
}

function least(a: Tri, b: Tri): Tri {
  return a < b ? a : b
}

function not(value: Tri): Tri {
  return value === yes ? no : value === no ? yes : maybe
}
