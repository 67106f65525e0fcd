import type { Budget } from '../budget.ts'
import type { PlaceKind, WantedPlaces } from '../readers/places.ts'
import { maybe, no, type Tri, tri, yes } from '../tri.ts'
import { type Found, type Hole, type Leaf, placeOfLeaf, spellingsOfLeaf } from '../values.ts'

/** Bits for one leaf: an element matches, one does not. Several addresses can set both, blank text neither. */
export const matched = 1
export const failed = 2
/** An unknown part of the call decides whether the leaf is compared at all. */
export const unsure = 4

export const one = (matches: boolean): number => (matches ? matched : failed)

export interface Matcher {
  readonly fitsAbsent: boolean
  leaf(leaf: Leaf, budget: Budget): number
  /** Whether at least one element of the whole text will match, of which only the prefix and `hole.after` are known. */
  prefix(prefix: string, hole: Hole, budget: Budget): Tri
}

/**
 * A restrictive rule matches if any element does, an `allow` rule only if all do. An absent value never fits an `allow`
 * rule; in a restrictive rule it fits a negative operator, and any other compares the tool's default instead.
 */
export function quantify(matcher: Matcher, found: Found, isRestrictive: boolean, budget: Budget): Tri {
  let bits = 0
  for (const leaf of found.leaves) {
    bits |= matcher.leaf(leaf, budget)
    if (isRestrictive && (bits & matched) !== 0) return yes
    if (!isRestrictive && (bits & failed) !== 0) return no
  }
  if (!isRestrictive) {
    if (found.isMissing) return no
    if (found.holes.length > 0 || (bits & unsure) !== 0) return maybe
    return tri((bits & matched) !== 0)
  }
  if (matcher.fitsAbsent && found.isMissing) return yes
  if (!matcher.fitsAbsent)
    for (const leaf of found.defaults) if ((matcher.leaf(leaf, budget) & matched) !== 0) return yes
  let result: Tri = (bits & unsure) !== 0 ? maybe : no
  for (const hole of found.holes) {
    const each = matchHole(matcher, hole, budget)
    if (each > result) result = each
  }
  if (result !== no || !matcher.fitsAbsent) return result
  return tri(bits === 0 && found.holes.length === 0)
}

function matchHole(matcher: Matcher, hole: Hole, budget: Budget): Tri {
  return hole.prefix === null ? maybe : matcher.prefix(hole.prefix, hole, budget)
}

/** The leaf as a place. Only if its text does not match. `holds` compares a spelling with a part from the rule. */
export function byPlace(
  leaf: Leaf,
  kind: PlaceKind,
  holds: (spelling: string, part: string, budget: Budget) => boolean,
  wanted: WantedPlaces,
  isRestrictive: boolean,
  budget: Budget,
): number {
  if (!wanted.hasTexts) return failed
  const place = placeOfLeaf(leaf, kind, budget)
  if (place === null) return one(isRestrictive)
  const parts = wanted.parts(kind)
  budget.spend(parts.size)
  const spellings = spellingsOfLeaf(leaf, kind, place)
  for (const part of parts) for (const each of spellings) if (holds(each, part, budget)) return matched
  return failed
}
