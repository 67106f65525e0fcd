import { Budget } from './budget.ts'
import { inWhen, type WhenOperator } from './operators/index.ts'
import { resolve, type Scope } from './templates.ts'
import type { Json } from './types.ts'
import { find } from './values.ts'

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
export const asksForPresence = ({ operator }: Pick<When, 'operator'>): boolean =>
  inWhen(operator).asksForPresence

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
  budget.spend(1 + (Array.isArray(value) ? value.length >> 4 : 0))
  const found = find({ value }, ['value'])
  budget.spend(found.leaves.length >> 4)
  return inWhen(operator).holds({ value, found }, compare, budget)
}
