import type { Budget } from '../budget.ts'
import { WantedPlaces } from '../readers/places.ts'
import { maybe, yes } from '../tri.ts'
import { list, quoteValue } from '../text.ts'
import { alsoByAddress, isOneOf, partsOfAddresses, wholeAddresses } from './addresses.ts'
import { byMatcher, comparesWith, comparison, isScalar, otherText } from './comparison.ts'
import { byPlace, failed, matched, type Matcher } from './matcher.ts'
import { fold } from './membership.ts'
import type { Operator, Scalar } from './operator.ts'
import { parts } from './operands.ts'

export const contains = {
  name: 'contains',
  rules: comparison({
    operand: { form: 'Contains', schema: parts },
    matcher: containment,
    extend: alsoInAddresses,
    words: (param, values) => `${param} contains ${list(values.map(quoteValue), 'or')}`,
    verb: 'does',
    examples: (values) => [...values, ...values.map((each) => `more ${each} more`), values, otherText],
  }),
  when: byMatcher({
    name: 'contains',
    matcher: (values) => containment(values, true),
    compareIssues: comparesWith(
      'a value or a list of values',
      (compare) =>
        isScalar(compare) || (Array.isArray(compare) && compare.length > 0 && compare.every(isScalar)),
    ),
  }),
} as const satisfies Operator

function containment(values: readonly Scalar[], isRestrictive: boolean): Matcher {
  const wanted = values.map((value) => ({ value, folded: fold(value) }))
  const isPart = (text: string, { value, folded }: (typeof wanted)[number], budget: Budget): boolean =>
    typeof value === 'string' &&
    (includesText(text, value, budget) || (folded !== value && includesText(text, String(folded), budget)))
  const places = new WantedPlaces(values, isRestrictive)
  return {
    fitsAbsent: false,
    leaf(leaf, budget) {
      const holds = (each: (typeof wanted)[number]): boolean => {
        budget.spendOnText(leaf.raw)
        if (leaf.inList || typeof each.value !== 'string') return leaf.value === each.folded
        return typeof leaf.raw === 'string' && isPart(leaf.raw, each, budget)
      }
      if (wanted.some(holds)) return matched
      if (leaf.kind === null) return failed
      return byPlace(leaf, leaf.kind, leaf.inList ? isEqual : includesText, places, isRestrictive, budget)
    },
    prefix(_, hole, budget) {
      // In a list, `contains` means equality, which pieces cannot decide.
      if (hole.inList) return maybe
      for (const piece of hole.pieces) {
        for (const each of wanted) {
          budget.spendOnText(piece)
          if (isPart(piece, each, budget)) return yes
        }
      }
      return maybe
    },
  }
}

const isEqual = (spelling: string, part: string): boolean => spelling === part

function alsoInAddresses(matcher: Matcher, values: readonly Scalar[]): Matcher {
  const parts = partsOfAddresses(values.filter((each) => String(each).includes('@')))
  if (parts.length === 0) return matcher
  const isWhole = isOneOf(wholeAddresses(values))
  return alsoByAddress(matcher, (address, inList, budget) => {
    if (inList) return isWhole(address, inList, budget)
    budget.spend(1 + (parts.length >> 2))
    return parts.some((part) => address.includes(part))
  })
}

/** A longer pattern, such as `ab` and many `a`, can take V8 |text|·|pattern| steps. */
const longestForEngine = 250

/** Like `text.includes(pattern)`, but always in linear time. */
export function includesText(text: string, pattern: string, budget: Budget): boolean {
  if (pattern.length <= longestForEngine) return text.includes(pattern)
  if (text.length < pattern.length) return false
  budget.spend((text.length + pattern.length) >> 5)
  return isFound(text, pattern)
}

/** The algorithm of Knuth, Morris and Pratt. */
function isFound(text: string, pattern: string): boolean {
  const overlaps = overlapsOf(pattern)
  let fits = 0
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at)
    while (fits > 0 && char !== pattern.charCodeAt(fits)) fits = overlaps[fits - 1] ?? 0
    if (char === pattern.charCodeAt(fits)) fits++
    if (fits === pattern.length) return true
  }
  return false
}

/** For each beginning of the pattern, how many of its last characters are also its first: 0, 0, 1, 2 for `abab`. */
function overlapsOf(pattern: string): Uint32Array {
  const overlaps = new Uint32Array(pattern.length)
  let fits = 0
  for (let at = 1; at < pattern.length; at++) {
    const char = pattern.charCodeAt(at)
    while (fits > 0 && char !== pattern.charCodeAt(fits)) fits = overlaps[fits - 1] ?? 0
    if (char === pattern.charCodeAt(fits)) fits++
    overlaps[at] = fits
  }
  return overlaps
}
