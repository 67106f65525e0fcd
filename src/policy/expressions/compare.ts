import type { Budget } from '../budget.ts'
import type { Json } from '../types.ts'
import { isList, isObject, mostLevels } from './shape.ts'

/** Lists and objects are equal if all of their parts are. */
export function areEqual(a: Json, b: Json, budget: Budget, level = 0): boolean {
  if (level > mostLevels) throw new TypeError(`a value has more than ${mostLevels} nested levels`)
  budget.spend(1 + (typeof a === 'string' ? a.length >> 6 : 0))
  if (a === b) return true
  if (isList(a) && isList(b))
    return a.length === b.length && a.every((each, at) => areEqual(each, b[at] as Json, budget, level + 1))
  if (!isObject(a) || !isObject(b)) return false
  const names = Object.keys(a)
  budget.spend(4 * names.length)
  return (
    names.length === Object.keys(b).length &&
    names.every(
      (name) => Object.hasOwn(b, name) && areEqual(a[name] as Json, b[name] as Json, budget, level + 1),
    )
  )
}

/** Negative if `a` comes first. Throws TypeError unless both are numbers, or both are texts. */
export function order(a: Json, b: Json, what: string, budget: Budget): number {
  budget.spend(1 + (typeof a === 'string' ? a.length >> 6 : 0))
  if (typeof a === 'number' && typeof b === 'number') return a - b
  if (typeof a === 'string' && typeof b === 'string') return a < b ? -1 : a > b ? 1 : 0
  const mixed = [a, b].every((each) => typeof each === 'number' || typeof each === 'string')
  throw new TypeError(
    mixed
      ? `\`${what}\` compares a number with text: write \`number(…)\``
      : `\`${what}\` compares two numbers or two texts`,
  )
}
