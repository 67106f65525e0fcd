import { Budget } from './budget.ts'
import { truth } from './expressions/evaluate.ts'
import { inWhen, type WhenOperator } from './operators/index.ts'
import { MissingPath, resolve, TemplateError, type Scope } from './templates.ts'
import { no } from './tri.ts'
import type { Json } from './types.ts'
import { find } from './values.ts'

/** Text is one template that gives true or false. */
export type When = string | Comparison

/** `value` and `compare` may have templates. */
export interface Comparison {
  readonly value: Json
  readonly operator: WhenOperator
  readonly compare?: Json | undefined
}

/** The parts with templates. */
export const whenParts = (when: When | undefined): readonly Json[] => {
  if (when === undefined) return []
  return typeof when === 'string'
    ? [when]
    : [when.value, ...(when.compare === undefined ? [] : [when.compare])]
}

/** For `exists`, a path that leads to nothing gives null. */
export const asksForPresence = ({ operator }: Pick<Comparison, 'operator'>): boolean =>
  inWhen(operator).asksForPresence

/** A path that leads to nothing is different from every value, and nothing else is true of it. */
export const holdsIfMissing = (when: When): boolean =>
  typeof when !== 'string' && when.operator === 'not_equals'

/** Throws as `resolve` and `holds` do, but never for a path that leads to nothing. */
export function isWanted(when: When, scope: Scope): boolean {
  try {
    if (typeof when === 'string') return isTrue(resolve(when, scope).value)
    const compare = when.compare === undefined ? undefined : resolve(when.compare, scope).value
    const { value } = resolve(when.value, { ...scope, missingIsNull: asksForPresence(when) })
    return holds(when.operator, value, compare)
  } catch (error) {
    if (error instanceof MissingPath) return holdsIfMissing(when)
    throw error
  }
}

function isTrue(value: Json): boolean {
  try {
    return truth(value) !== no
  } catch (error) {
    throw new TemplateError(`\`when\`: ${(error as Error).message}`)
  }
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
