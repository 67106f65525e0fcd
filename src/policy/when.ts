import { Budget } from './budget.ts'
import { inWhen, type WhenOperator } from './operators/index.ts'
import { resolve, type Scope } from './templates.ts'
import type { Json } from './types.ts'
import { find } from './values.ts'

/** `value` and `compare` may have templates. */
export interface When {
  readonly value: Json
  readonly operator: WhenOperator
  readonly compare?: Json | undefined
}

/** Only for `exists`: elsewhere a missing path is more likely a mistake (docs/decisions/0250). */
export const asksForPresence = ({ operator }: Pick<When, 'operator'>): boolean =>
  inWhen(operator).asksForPresence

/** Throws as `resolve` and `holds` do. */
export function isWanted(when: When, scope: Scope): boolean {
  const compare = when.compare === undefined ? undefined : resolve(when.compare, scope).value
  const { value } = resolve(when.value, { ...scope, missingIsNull: asksForPresence(when) })
  return holds(when.operator, value, compare)
}

/**
 * Positive operators need one matching element of a list. Negative ones negate them, so `not_in` is true for
 * null. Throws TypeError for a comparison that cannot be made, and BudgetExceeded for a value too large to
 * compare.
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
