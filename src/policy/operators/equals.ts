import { comparable } from '../readers/google-links.ts'
import type { Json } from '../types.ts'
import { negationOf } from './comparison.ts'
import { amongListed } from './membership.ts'
import { listOf, type Operator, type OfWhen } from './operator.ts'
import { whole } from './operands.ts'

const when: OfWhen = {
  asksForPresence: false,
  compareIssues: () => [],
  holds: ({ value }, compare) => equalsAny(value, compare ?? null),
}

export const equals = {
  name: 'equals',
  rules: amongListed({ form: 'Equals', schema: whole }),
  when,
} as const satisfies Operator

/** Rules say `not_in` with a list of one value. */
export const notEquals = { name: 'not_equals', when: negationOf(when) } as const satisfies Operator

/** Unlike a rule, a step may compare with null, a list or an object. */
function equalsAny(value: Json, compare: Json): boolean {
  // Each text of `compare` is read once.
  const known = new Map<string, string>()
  const fold = (text: string): string => {
    let folded = known.get(text)
    if (folded === undefined) known.set(text, (folded = comparable(text)))
    return folded
  }
  const isEqual = (each: Json): boolean => equal(each, compare, fold)
  return isEqual(value) || (Array.isArray(value) && listOf<Json>(value).some(isEqual))
}

/** Google links are compared by file id, and objects in any order of keys. `fold` makes texts of `b` comparable. */
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
