import { comparable, isFileId } from '../readers/google-links.ts'
import { WantedPlaces } from '../readers/places.ts'
import { destinationParam } from '../tool-facts.ts'
import { maybe, tri } from '../tri.ts'
import { placeOfLeaf } from '../values.ts'
import { alsoByAddress, isOneOf, wholeAddresses } from './addresses.ts'
import { list, quoteValue } from '../text.ts'
import { comparison, otherText } from './comparison.ts'
import { matched, type Matcher, one } from './matcher.ts'
import type { Operand, Scalar } from './operator.ts'

export const fold = (value: Scalar): Scalar => (typeof value === 'string' ? comparable(value) : value)

export function membership(values: readonly Scalar[], isNegative: boolean, isRestrictive: boolean): Matcher {
  // In a Set, a text never equals a number, and numbers are compared by value.
  const set = new Set<Scalar>(values.map(fold))
  const texts = [...set].flatMap((text) => (typeof text === 'string' ? [{ text, isId: isFileId(text) }] : []))
  const places = new WantedPlaces(values, isRestrictive, isNegative)
  return {
    fitsAbsent: isNegative,
    leaf(leaf, budget) {
      budget.spendOnText(leaf.value)
      const isListed = set.has(leaf.value)
      if (isListed || leaf.kind === null || !places.hasTexts) return one(isListed !== isNegative)
      const place = placeOfLeaf(leaf, leaf.kind, budget)
      budget.spend(1)
      if (place === null) return one(isRestrictive)
      return one(places.wholes(leaf.kind).has(place) !== isNegative)
    },
    prefix(_, hole, budget) {
      // The whole text may be a link to a listed place, or no place.
      if (hole.kind !== null && places.hasTexts) return maybe
      budget.spend(texts.length >> 4)
      for (const { text, isId } of texts)
        if (hole.mayBecome(text, budget) || (isId && hole.mayBecomeLink)) return maybe
      return tri(isNegative)
    },
  }
}

function alsoSpelledOtherwise(matcher: Matcher, values: readonly Scalar[], param: string): Matcher {
  if (param === destinationParam) return onAnyPort(matcher, values)
  const addresses = wholeAddresses(values)
  return addresses.size === 0 ? matcher : alsoByAddress(matcher, isOneOf(addresses))
}

/** A host without a port also matches with any port, or a server on another port would get past the rule. */
function onAnyPort(matcher: Matcher, values: readonly Scalar[]): Matcher {
  const hosts = new Set(values.map((each) => String(each).toLowerCase()))
  return {
    ...matcher,
    leaf(leaf, budget) {
      const result = matcher.leaf(leaf, budget)
      if (typeof leaf.raw !== 'string') return result
      budget.spendOnText(leaf.raw)
      const host = leaf.raw.toLowerCase()
      return hosts.has(host) || hosts.has(host.replace(/:\d+$/, '')) ? result | matched : result
    },
  }
}

/** One that lists the empty text is also true for it. */
const needsListedValue = (values: readonly Scalar[]): boolean => !values.includes('')

/** `equals` and `in` differ only in the type of their value. */
export const amongListed = <Value>(operand: Operand<Value>) =>
  comparison({
    operand,
    wholes: 'listed',
    matcher: (values, isRestrictive) => membership(values, false, isRestrictive),
    extend: alsoSpelledOtherwise,
    words: (param, values) => `${param} is ${list(values.map(quoteValue), 'or')}`,
    verb: 'is',
    examples: (values) => [...values, otherText],
    needsValue: needsListedValue,
  })
