import type { Budget } from '../budget.ts'
import type { Json, JsonObject } from '../types.ts'

/** A function of the language. It is pure, and takes known values only. */
export interface Shape {
  /** As the documentation and error messages write it. */
  readonly written: string
  /** The least and most number of arguments, without the variable and its expression. */
  readonly args: readonly [number, number]
  /** Absent if it can be of several types. */
  readonly gives?: 'string' | 'number' | 'boolean' | 'array' | 'object'
  /** Whether it takes a variable and an expression for each element of its first argument. */
  readonly each?: 'needed' | 'optional'
  /** It does not look into the elements or fields of its arguments, so these may be unknown in a plan. */
  readonly opaque?: true
  /** Throws TypeError with a sentence for the author, which contains no value, and BudgetExceeded. */
  run(args: readonly Json[], work: Work): Json
}

export interface Work {
  readonly budget: Budget
  /** The values of the expression for each element; null without one. */
  readonly keys: readonly Json[] | null
}

/** Characters of one text that a function makes. */
export const longestMade = 8 * 1024 * 1024

/** Nested levels of a value. Parameters and stores take no more. */
export const mostLevels = 64

/**
 * One unit for each value and for every 16 characters, so that its JSON can be made. A part that occurs twice costs twice:
 * values that share parts would otherwise double with each step. Throws TypeError for too many levels.
 */
export function spendOn(value: unknown, budget: Budget, level = 0): void {
  if (level > mostLevels) throw new TypeError(`a value has more than ${mostLevels} nested levels`)
  budget.spend(1 + (typeof value === 'string' ? value.length >> 4 : 0))
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) for (const each of value) spendOn(each, budget, level + 1)
  else
    for (const [key, each] of Object.entries(value)) {
      budget.spend(key.length >> 4)
      spendOn(each, budget, level + 1)
    }
}

export function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value)
}

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const shown = (value: Json | undefined): string => {
  if (value === null || value === undefined) return 'nothing'
  if (typeof value === 'string') return 'text'
  if (typeof value === 'object') return isList(value) ? 'a list' : 'an object'
  return typeof value === 'number' ? 'a number' : 'true or false'
}

/* Each of these throws TypeError with what the function needs. `what` is the function or operator. */

export function textOf(value: Json | undefined, what: string): string {
  if (typeof value === 'string') return value
  const hint = typeof value === 'number' || typeof value === 'boolean' ? ': write `text(…)`' : ''
  throw new TypeError(`\`${what}\` needs text, not ${shown(value)}${hint}`)
}

/** Without the blanks around it. For what a person writes in a cell, such as a number or a date. */
export function shortTextOf(value: Json | undefined, what: string): string {
  const text = textOf(value, what)
  if (text.length <= 200) return text.trim()
  throw new TypeError(`\`${what}\` needs a short text`)
}

export function numberOf(value: Json | undefined, what: string): number {
  if (typeof value === 'number') return value
  const hint = typeof value === 'string' ? ': write `number(…)`' : ''
  throw new TypeError(`\`${what}\` needs a number, not ${shown(value)}${hint}`)
}

export function wholeOf(value: Json | undefined, what: string): number {
  const found = numberOf(value, what)
  if (Number.isInteger(found)) return found
  throw new TypeError(`\`${what}\` needs a whole number`)
}

export function listOf(value: Json | undefined, what: string): readonly Json[] {
  if (value !== undefined && isList(value)) return value
  throw new TypeError(`\`${what}\` needs a list, not ${shown(value)}`)
}

export function objectOf(value: Json | undefined, what: string): JsonObject {
  if (isObject(value)) return value
  throw new TypeError(`\`${what}\` needs an object, not ${shown(value)}`)
}

/** JSON has no other numbers. */
export function finite(value: number, what: string): number {
  if (Number.isFinite(value)) return Object.is(value, -0) ? 0 : value
  throw new TypeError(`\`${what}\` gives no number: look for a division by 0`)
}

/** Takes the cost of a text before it is made. */
export function making(length: number, what: string, budget: Budget): void {
  if (length > longestMade)
    throw new TypeError(`\`${what}\` makes a text of more than ${longestMade / 1024 / 1024} MiB`)
  budget.spend(1 + (length >> 6))
}
