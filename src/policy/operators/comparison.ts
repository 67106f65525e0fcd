import type { Budget } from '../budget.ts'
import { yes } from '../tri.ts'
import type { Json } from '../types.ts'
import { type Matcher, quantify } from './matcher.ts'
import { type Comparing, listOf, type OfWhen, type Operand, type Scalar } from './operator.ts'

/** What an operator must say. Other fields of `Comparing` follow. */
type Own<Value> = Partial<Comparing> &
  Pick<Comparing, 'words' | 'verb' | 'examples'> & {
    readonly operand: Operand<Value>
    /** Unclear values match only restrictive rules: an unreadable place, or a subdomain with perhaps another owner. */
    matcher(values: readonly Scalar[], isRestrictive: boolean): Matcher
    /** In a rule that restricts. It only adds matches. */
    extend?(matcher: Matcher, values: readonly Scalar[], param: string): Matcher
  }

export function comparison<Value>({
  matcher,
  extend = (plain) => plain,
  ...own
}: Own<Value>): Comparing & { readonly operand: Operand<Value> } {
  const { fitsAbsent = false } = own
  return {
    reads: 'values',
    fitsAbsent,
    wholes: null,
    comparesDomains: false,
    needsValue: () => !fitsAbsent,
    implies: (narrow, wide) => (fitsAbsent ? isSubset(wide, narrow) : isSubset(narrow, wide)),
    compile(values, { param, isRestrictive }) {
      if (!values.every(isScalar)) throw new TypeError('a condition compares only text, numbers and booleans')
      const plain = matcher(values, isRestrictive)
      return isRestrictive ? extend(plain, values, param) : plain
    },
    ...own,
  }
}

export function isSubset(part: readonly unknown[], whole: readonly unknown[]): boolean {
  if (part.length === 1) return whole.includes(part[0])
  const values = new Set(whole)
  return part.every((each) => values.has(each))
}

export function isScalar(value: unknown): value is Scalar {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
}

interface ByMatcher extends Pick<OfWhen, 'compareIssues'> {
  /** No other operator may have this name: a matcher is found again by it. */
  readonly name: string
  matcher(values: readonly Scalar[]): Matcher
  /** Comparisons for reading a list of this length, usually one for four elements. */
  readonly costOf?: (length: number) => number
}

/** As in a rule that restricts, one fitting element is enough. The same list gives one matcher. */
export function byMatcher({
  name,
  matcher,
  compareIssues,
  costOf = (length) => length >> 2,
}: ByMatcher): OfWhen {
  const make = (compare: Json | undefined, budget: Budget): Matcher => {
    if (Array.isArray(compare)) budget.spend(costOf(compare.length))
    const values = listOf<unknown>(compare)
    if (!values.every(isScalar)) throw new TypeError(`\`${name}\` compares only text, numbers and booleans`)
    return matcher(values)
  }
  return {
    asksForPresence: false,
    compareIssues,
    holds({ found }, compare, budget) {
      budget.spend(found.leaves.length)
      const made =
        typeof compare === 'object' && compare !== null
          ? budget.onceFor(compare, name, () => make(compare, budget))
          : make(compare, budget)
      return quantify(made, found, true, budget) === yes
    },
  }
}

/** Also true for an absent value (null). */
export function negationOf(operator: OfWhen): OfWhen {
  return { ...operator, holds: (given, compare, budget) => !operator.holds(given, compare, budget) }
}

export const comparesWith =
  (what: string, fits: (compare: Json) => boolean): OfWhen['compareIssues'] =>
  (compare, operator) =>
    fits(compare) ? [] : [`\`${operator}\` compares with ${what}`]

export const comparesWithList = comparesWith('a list of values', (compare) => {
  return Array.isArray(compare) && compare.every(isScalar)
})

/** A value that few conditions mention. */
export const otherText = 'something else'
