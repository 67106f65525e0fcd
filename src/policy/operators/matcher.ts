import type { Budget } from '../budget.ts'
import type { PlaceKind, WantedPlaces } from '../readers/places.ts'
import { maybe, no, type Tri, tri, yes } from '../tri.ts'
import { type Found, type Hole, type Leaf, placeOfLeaf, spellingsOfLeaf } from '../values.ts'

/**
 * The bits in the result for one leaf (a single value in the parameters). `matched` is set if an element of the leaf
 * matches. `failed` is set if an element does not match. A text with several addresses can set both bits. With the
 * operators for domains, blank text sets neither bit.
 */
export const matched = 1
export const failed = 2
/** The bit that is set if an unknown part of the call decides whether the leaf is compared at all. */
export const unsure = 4

/** The bits for a leaf of one element. */
export const one = (matches: boolean): number => (matches ? matched : failed)

/** Compares leaves with a rule's value. */
export interface Matcher {
  /** As in `Comparing`. */
  readonly fitsAbsent: boolean
  leaf(leaf: Leaf, budget: Budget): number
  /**
   * Compares a text of which some parts are unknown. Only the prefix and the pieces in `hole.after` are known. Returns
   * whether at least one element of the whole text will match: yes, no or maybe.
   */
  prefix(prefix: string, hole: Hole, budget: Budget): Tri
}

/**
 * Combines the results of all elements. A restrictive rule matches if any element matches. An `allow` rule matches only
 * if all elements match. If the value is absent, an `allow` rule does not match, and a negative operator in a
 * restrictive rule matches. With any other operator, a restrictive rule then compares the tool's default value, if
 * there is one.
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

/**
 * Reads the leaf's text as a place, such as a repository. Compares this place with the rule's texts. Call this function
 * only if the leaf's text itself does not match.
 * @param holds compares a spelling of the leaf's place with a part of a place from the rule
 */
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
