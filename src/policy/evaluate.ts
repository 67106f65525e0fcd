import { type Budget, BudgetExceeded } from './budget.ts'
import type { ParamCondition } from './condition.ts'
import { alsoByAddress } from './address-matcher.ts'
import { type Matcher, compileMatcher, quantify } from './operators.ts'
import type { RuleBody } from './rule.ts'
import { maybe, no, type Tri, tri, yes } from './tri.ts'
import type { Label } from './types.ts'
import { type Defaults, type Found, type Partial, type Places, find } from './values.ts'

/** Known and possible labels. In a concrete call both sets are the same. */
export interface LabelSets {
  readonly definite: ReadonlySet<Label>
  readonly possible: ReadonlySet<Label>
  /** True if values can bring labels that are not in `possible`. */
  readonly isOpen: boolean
}

/** The labels of a concrete call. */
export function knownLabels(labels: readonly Label[]): LabelSets {
  const set = new Set(labels)
  return { definite: set, possible: set, isOpen: false }
}

/** Labels of the sources from which each parameter (a dotted path) was built. */
export type Origins = ReadonlyMap<string, LabelSets>

/** One call under evaluation. Each path is searched once for all rules, so its leaves cost budget only once. */
export interface Subject {
  readonly params: Partial
  /** What the parameters name. */
  readonly places: Places
  /** What the tool uses for parameters that the call leaves out. */
  readonly defaults: Defaults
  readonly labels: LabelSets
  /** null: not tracked, so any parameter may be built from every source of the call's labels, as for agents. */
  readonly origins: Origins | null
  readonly budget: Budget
  /** Cached results of label conditions; may be shared by calls with the same labels. */
  readonly byLabels: Map<LabelConditions, Tri>
  /** Cached values of each path, or the error of finding them. */
  readonly found: Map<string, Found | Error>
}

/** Conditions of rules and of label rules. */
export interface Conditions {
  /** undefined: any labels match. null: the conditions cannot be read, as for `params`. */
  readonly labels: LabelConditions | null | undefined
  /** null if the conditions cannot be read. Their evaluation then throws, so a restrictive rule matches. */
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
  /** The labels of `from_label`; null for other operators. */
  readonly wanted: ReadonlySet<Label> | null
}

/** Throws TypeError for a value that no schema accepts. */
export function compileLabels(labels: RuleBody['labels']): LabelConditions | undefined {
  if (labels === undefined) return undefined
  const setOf = (list: readonly Label[] | undefined): ReadonlySet<Label> | null => {
    if (list === undefined) return null
    if (!Array.isArray(list)) throw new TypeError('labels must be a list')
    return new Set(list)
  }
  return { anyOf: setOf(labels.any_of), allOf: setOf(labels.all_of), noneOf: setOf(labels.none_of) }
}

/** Throws TypeError for a condition that no schema accepts. */
export function compileCondition(source: ParamCondition, isRestrictive: boolean): CompiledCondition {
  if (typeof source.param !== 'string') throw new TypeError('a condition must name its parameter')
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
 * Whether all conditions on labels and parameters hold. A condition that cannot be evaluated counts as matching if
 * the rule restricts. A rule with conditions costs one comparison, and each tested label one more. Throws only
 * BudgetExceeded.
 */
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

/** Evaluates each condition by itself, for explanations. May throw BudgetExceeded, as the evaluation of a rule may. */
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

/** Whether a rule has no conditions. Such a rule matches every call that it covers, and costs no budget. */
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
      found = find(subject.params, condition.path, subject.places, subject.defaults)
    } catch (error) {
      found = error instanceof Error ? error : new Error(String(error))
    }
    subject.found.set(condition.source.param, found)
    subject.budget.spend(found instanceof Error ? 0 : found.leaves.length + found.defaults.length)
  }
  subject.budget.spend(1)
  if (found instanceof Error) throw found
  return found
}

/** A list can have elements with and without the path. A restrictive rule then takes the answer that restricts. */
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

/** Whether one path contains the other. The rule's path may omit list positions. */
export function overlaps(rule: readonly string[], built: readonly string[]): boolean {
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

/** Whether the two sets share a label. Costs the size of the smaller set. */
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
