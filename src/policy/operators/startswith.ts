import { comparable } from '../readers/google-links.ts'
import { WantedPlaces } from '../readers/places.ts'
import { maybe, no, yes } from '../tri.ts'
import { list, quoteValue } from '../text.ts'
import { alsoByAddress, partsOfAddresses } from './addresses.ts'
import { byMatcher, comparesWith, comparison, otherText } from './comparison.ts'
import { byPlace, failed, matched, type Matcher } from './matcher.ts'
import type { Operator, Scalar } from './operator.ts'
import { partOfText } from './operands.ts'

export const startsWith = {
  name: 'startswith',
  rules: comparison({
    operand: { form: 'StartsWith', schema: partOfText },
    matcher: beginning,
    extend: alsoInAddresses,
    words: (param, values) => `${param} starts with ${list(values.map(quoteValue), 'or')}`,
    verb: 'does',
    examples: (values) => [...values, ...values.map((each) => `${each}x`), otherText],
  }),
  when: byMatcher({
    name: 'startswith',
    matcher: (values) => beginning(values, true),
    compareIssues: comparesWith('text', (compare) => typeof compare === 'string'),
  }),
} as const satisfies Operator

function beginning(values: readonly Scalar[], isRestrictive: boolean): Matcher {
  const value = String(values[0])
  const folded = comparable(value)
  const places = new WantedPlaces([value], isRestrictive)
  return {
    fitsAbsent: false,
    leaf(leaf, budget) {
      budget.spend(1)
      if (typeof leaf.value !== 'string' || typeof leaf.raw !== 'string') return failed
      if (leaf.raw.startsWith(value) || leaf.value.startsWith(folded)) return matched
      return leaf.kind === null ? failed : byPlace(leaf, leaf.kind, starts, places, isRestrictive, budget)
    },
    prefix(prefix, hole) {
      if (prefix.startsWith(value)) return yes
      if (hole.kind !== null || value.startsWith(prefix) || folded !== value) return maybe
      return hole.mayBecomeLink ? maybe : no
    },
  }
}

const starts = (spelling: string, part: string): boolean => spelling.startsWith(part)

function alsoInAddresses(matcher: Matcher, values: readonly Scalar[]): Matcher {
  const parts = partsOfAddresses(values)
  if (parts.length === 0) return matcher
  return alsoByAddress(matcher, (address, _, budget) => {
    // It mostly ends at the first characters, so eight parts cost one comparison.
    budget.spend(1 + (parts.length >> 3))
    return parts.some((part) => address.startsWith(part))
  })
}
