import type { z } from 'zod'
import type { Budget } from '../budget.ts'
import type { LabelSets, Origins } from '../label-sets.ts'
import type { Steps } from '../steps.ts'
import type { Tri } from '../tri.ts'
import type { Json } from '../types.ts'
import type { Found } from '../values.ts'
import type { Matcher } from './matcher.ts'

/**
 * An operator of conditions, with all that the policy knows about it. A file of this folder holds one operator, and its
 * negation if there is one. `index.ts` lists all operators.
 */
export interface Operator {
  readonly name: string
  /** Is absent if rules do not take the operator. */
  readonly rules?: OfRules
  /** Is absent if the `when` of a step does not take the operator. */
  readonly when?: OfWhen
}

export type Scalar = string | number | boolean

/** The type of the value of a rule's condition. Operators that share this object are one type in openapi.json. */
export interface Operand<Value = unknown> {
  /** The name of the type in openapi.json is this name and `Condition`. It is published and must not change. */
  readonly form: string
  readonly schema: z.ZodType<Value>
}

/** An operator in the conditions of rules and label rules. `values` are the value of a condition as a list. */
interface InRules {
  readonly operand: Operand
  /** Returns a clause such as "`to` is in `acme.com`". `param` is already quoted. */
  words(param: string, values: readonly Scalar[]): string
  /** Follows the name of an unknown value that decides: "`to` contains `x` if `input.to` does". */
  readonly verb: string
  /** Returns values of a parameter: some that fit the condition, and some that do not. */
  examples(values: readonly Scalar[]): readonly Json[]
  /** Whether a condition can be true only for a parameter that has a value. If in doubt, the answer is false. */
  needsValue(values: readonly Scalar[]): boolean
  /**
   * Whether each value that fits `narrow` certainly fits `wide`. `wide` belongs to the same operator, or both operators
   * have `wholes: 'listed'`. If in doubt, the answer is false.
   */
  implies(narrow: readonly Scalar[], wide: readonly Scalar[], scope: ImplicationScope): boolean
}

interface ImplicationScope {
  /** Whether both conditions belong to `allow` rules. Otherwise both belong to rules that restrict. */
  readonly isAllow: boolean
  readonly steps: Steps
}

/** An operator that compares the values of a parameter. */
export interface Comparing extends InRules {
  readonly reads: 'values'
  /** Throws TypeError for values that the schema refuses, e.g. after damage in the database. */
  compile(values: readonly Scalar[], place: Place): Matcher
  /** Whether a condition of a rule that restricts also fits an absent value. Such operators compare no defaults. */
  readonly fitsAbsent: boolean
  /**
   * `listed`: a value fits if it equals one of the condition's values. `excluded`: if it equals none of them. null: the
   * operator compares something else.
   */
  readonly wholes: 'listed' | 'excluded' | null
  /** Whether the condition's values are domains. */
  readonly comparesDomains: boolean
}

/** An operator that asks whether a parameter has a value. */
export interface AskingPresence extends InRules {
  readonly reads: 'presence'
  /** As in `Comparing`. */
  compile(values: readonly Scalar[], place: Place): Test
}

/** An operator that asks which labels the sources of a parameter have. The condition's values are labels. */
export interface AskingSources extends InRules {
  readonly reads: 'sources'
  /** As in `Comparing`. */
  compile(values: readonly Scalar[], place: Place): Test
}

export type OfRules = Comparing | AskingPresence | AskingSources

/** The condition's parameter, and the kind of its rule. */
export interface Place {
  readonly param: string
  readonly path: readonly string[]
  /** Whether the rule denies or requires an approval. Label rules are evaluated like these. */
  readonly isRestrictive: boolean
}

/** Evaluates a condition for what was found at its path. */
export type Test = (found: Found, call: TestedCall) => Tri

export interface TestedCall {
  readonly labels: LabelSets
  /**
   * Is null if the sources of parameters are not tracked, as in calls of agents. Then each parameter counts as built
   * from all sources of the call.
   */
  readonly origins: Origins | null
  readonly budget: Budget
}

/** An operator in the `when` of a step. */
export interface OfWhen {
  /** Whether a path of `value` may lead to nothing, and `compare` may be left out. */
  readonly asksForPresence: boolean
  /** Returns messages about a `compare` without templates that the operator cannot use. They name the operator. */
  compareIssues(compare: Json, operator: string): readonly string[]
  /**
   * Throws TypeError for a comparison that the operator cannot make, and BudgetExceeded for a value too large to
   * compare.
   */
  holds(given: Given, compare: Json | undefined, budget: Budget): boolean
}

/** The `value` of a `when`, and its leaves. */
interface Given {
  readonly value: Json
  readonly found: Found
}

/** Returns the value of a condition, or the `compare` of a `when`, as a list. */
export function listOf<T>(value: T | readonly T[]): readonly T[] {
  return Array.isArray(value) ? (value as readonly T[]) : [value as T]
}
