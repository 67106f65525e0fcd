import { Budget } from './budget.ts'
import type { ParamCondition } from './condition.ts'
import { comparable } from './readers/google-links.ts'
import { type Matcher, compileMatcher, quantify } from './operators.ts'
import { resolve, type Scope } from './templates.ts'
import { yes } from './tri.ts'
import type { Json } from './types.ts'
import { find } from './values.ts'

/** The operators of a step's `when`: all operators of rules except `from_label`, and also `not_equals`. */
export type WhenOperator = Exclude<ParamCondition['operator'], 'from_label'> | 'not_equals'

const negations = { not_equals: 'equals', not_in: 'in', domain_not_in: 'domain_in' } as const

/** The condition of a step. `value` and `compare` may have templates. */
export interface When {
  readonly value: Json
  readonly operator: WhenOperator
  readonly compare?: Json | undefined
}

/**
 * Whether a path of `value` that leads to nothing is null, and not an error. `exists` asks whether there is a value. For
 * every other operator, a missing path is more likely a mistake (docs/decisions/0250).
 */
export const asksForPresence = ({ operator }: Pick<When, 'operator'>): boolean => operator === 'exists'

/** Returns whether a step's `when` is true. Throws as `resolve` and `holds` do. */
export function isWanted(when: When, scope: Scope): boolean {
  const compare = when.compare === undefined ? undefined : resolve(when.compare, scope).value
  const { value } = resolve(when.value, { ...scope, missingIsNull: asksForPresence(when) })
  return holds(when.operator, value, compare)
}

/**
 * Returns whether a step's `when` is true for a resolved value. Positive operators are true if any element of a list
 * matches. Negative operators are the negation of positive ones. So `not_in` is true for an absent value (null). Throws
 * TypeError for a comparison that the operator cannot make, and BudgetExceeded for a value too large to compare.
 */
export function holds(
  operator: WhenOperator,
  value: Json,
  compare: Json | undefined,
  budget: Budget = new Budget(),
): boolean {
  if (operator in negations)
    return !holds(negations[operator as keyof typeof negations], value, compare, budget)
  budget.spend(1 + (elements(value).length >> 4))
  const found = find({ value }, ['value'])
  budget.spend(found.leaves.length >> 4)
  if (operator === 'exists') return found.isThere === (compare ?? true)
  if (operator === 'equals') return equalsAny(value, compare ?? null)
  budget.spend(found.leaves.length)
  return quantify(matcherOf(operator as Compared, compare, budget), found, true, budget) === yes
}

type Compared = 'in' | 'contains' | 'startswith' | 'domain_in'

/**
 * Steps and items that compare with the same list share one matcher. Each domain in the list of `domain_in` costs two
 * comparisons, because it must be parsed. For the other operators, four elements of the list cost one comparison.
 */
function matcherOf(operator: Compared, compare: Json | undefined, budget: Budget): Matcher {
  const make = (): Matcher => {
    const { length } = elements(compare ?? null)
    budget.spend(operator === 'domain_in' ? 2 * length : length >> 2)
    return compileMatcher(operator, compare, true)
  }
  return typeof compare === 'object' && compare !== null ? budget.onceFor(compare, operator, make) : make()
}

function equalsAny(value: Json, compare: Json): boolean {
  // Each text of `compare` is read once, and not again for each element.
  const known = new Map<string, string>()
  const fold = (text: string): string => {
    let folded = known.get(text)
    if (folded === undefined) known.set(text, (folded = comparable(text)))
    return folded
  }
  return equal(value, compare, fold) || elements(value).some((each) => equal(each, compare, fold))
}

function elements(value: Json): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : []
}

/**
 * Whether two JSON values are equal. Google links are compared by their file id. The order of an object's keys does not
 * matter. `fold` makes the texts of `b` comparable.
 */
function equal(a: Json, b: Json, fold: (text: string) => string): boolean {
  if (typeof a === 'string' && typeof b === 'string') return comparable(a) === fold(b)
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return false
  const left = a as { [key: string]: Json }
  const right = b as { [key: string]: Json }
  return keys.every((key) => Object.hasOwn(right, key) && equal(left[key] ?? null, right[key] ?? null, fold))
}
