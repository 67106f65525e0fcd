import type { z } from 'zod'
import type { Budget } from '../budget.ts'
import type { LabelSets, Origins } from '../label-sets.ts'
import type { Steps, Json } from '../types.ts'
import type { Tri } from '../tri.ts'
import type { Found } from '../values.ts'
import type { Matcher } from './matcher.ts'

/** All that the policy knows about an operator. A file of this folder holds one, and its negation if there is one. */
export interface Operator {
  readonly name: string
  readonly rules?: OfRules
  readonly when?: OfWhen
}

export type Scalar = string | number | boolean

/** Operators that share this object are one type in openapi.json. */
export interface Operand<Value = unknown> {
  /** With `Condition` behind it, the type's name in openapi.json, which must not change. */
  readonly form: string
  readonly schema: z.ZodType<Value>
}

/** In conditions of rules and label rules. `values` are the value of a condition as a list. */
interface InRules {
  readonly operand: Operand
  /** A clause such as "`to` is in `acme.com`". `param` is already quoted. */
  words(param: string, values: readonly Scalar[]): string
  /** Follows the name of an unknown value that decides: "`to` contains `x` if `input.to` does". */
  readonly verb: string
  /** Some that fit the condition, and some that do not. */
  examples(values: readonly Scalar[]): readonly Json[]
  /** Whether it can be true only for a parameter with a value. If in doubt, false. */
  needsValue(values: readonly Scalar[]): boolean
  /** Whether what fits `narrow` certainly fits `wide`, of the same operator or both `listed`. If in doubt, false. */
  implies(narrow: readonly Scalar[], wide: readonly Scalar[], scope: ImplicationScope): boolean
}

interface ImplicationScope {
  /** Whether both conditions belong to `allow` rules, and not to rules that restrict. */
  readonly isAllow: boolean
  readonly steps: Steps
}

export interface Comparing extends InRules {
  readonly reads: 'values'
  /** Throws TypeError for values that the schema refuses, e.g. after damage in the database. */
  compile(values: readonly Scalar[], place: Place): Matcher
  /** Whether it fits an absent value in a rule that restricts. Such operators compare no defaults. */
  readonly fitsAbsent: boolean
  /** A value fits if it equals one of the condition's (`listed`) or none (`excluded`); null: anything else. */
  readonly wholes: 'listed' | 'excluded' | null
  readonly comparesDomains: boolean
}

export interface AskingPresence extends InRules {
  readonly reads: 'presence'
  compile(values: readonly Scalar[], place: Place): Test
}

export interface AskingSources extends InRules {
  readonly reads: 'sources'
  compile(values: readonly Scalar[], place: Place): Test
}

export type OfRules = Comparing | AskingPresence | AskingSources

export interface Place {
  readonly param: string
  readonly path: readonly string[]
  /** Whether the rule denies or requires an approval, or is a label rule. */
  readonly isRestrictive: boolean
}

export type Test = (found: Found, call: TestedCall) => Tri

export interface TestedCall {
  readonly labels: LabelSets
  /** Null if sources are not tracked, as in calls of agents: each parameter then counts as built from all of them. */
  readonly origins: Origins | null
  readonly budget: Budget
}

/** In the `when` of a step. */
export interface OfWhen {
  /** A path of `value` may lead to nothing, and `compare` may be left out. */
  readonly asksForPresence: boolean
  /** What the operator cannot use in a `compare` without templates. Messages name it. */
  compareIssues(compare: Json, operator: string): readonly string[]
  /** Throws TypeError for a comparison that it cannot make, and BudgetExceeded for a value too large to compare. */
  holds(given: Given, compare: Json | undefined, budget: Budget): boolean
}

interface Given {
  readonly value: Json
  readonly found: Found
}

export function listOf<T>(value: T | readonly T[]): readonly T[] {
  return Array.isArray(value) ? (value as readonly T[]) : [value as T]
}
