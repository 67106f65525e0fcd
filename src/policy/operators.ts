import type { Budget, ReadHost } from './budget.ts'
import type { RuleOperator } from './condition.ts'
import { includesText } from './long-pattern.ts'
import { comparable, isFileId } from './readers/google-links.ts'
import { isOwnedBy, isWithin, ruleDomain } from './readers/hosts.ts'
import { type PlaceKind, WantedPlaces } from './readers/places.ts'
import { type Host, hostsIn, settledHosts } from './readers/recipients.ts'
import { maybe, no, type Tri, tri, yes } from './tri.ts'
import { type Found, type Hole, type Leaf, placeOfLeaf, spellingsOfLeaf } from './values.ts'

type Scalar = string | number | boolean

/**
 * The bits in the result for one leaf (a single value in the parameters). `matched` is set if an element of the leaf
 * matches. `failed` is set if an element does not match. A text with several addresses can set both bits. With the
 * operators for domains, blank text sets neither bit.
 */
export const matched = 1
export const failed = 2
/** The bit that is set if an unknown part of the call decides whether the leaf is compared at all. */
export const unsure = 4

/** Compares leaves with a rule's value. */
export interface Matcher {
  /** True for `not_in` and `domain_not_in`. In a rule that restricts, these operators also match an absent value. */
  readonly isNegative: boolean
  leaf(leaf: Leaf, budget: Budget): number
  /**
   * Compares a text of which some parts are unknown. Only the prefix and the pieces in `hole.after` are known. Returns
   * whether at least one element of the whole text will match: yes, no or maybe.
   */
  prefix(prefix: string, hole: Hole, budget: Budget): Tri
}

/**
 * The operators that compare values. `exists` and `from_label` are not among them, because they test presence and
 * sources.
 */
export type ValueOperator = Exclude<RuleOperator, 'exists' | 'from_label'>

/**
 * Compiles a comparison. Unclear values match a restrictive rule, and never match an `allow` rule. There are two kinds
 * of unclear values. The first kind: the parameter names a place, such as a repository, but the value cannot be read as
 * a place. The second kind: a subdomain may have another owner than the domain, e.g. `evil.s3.amazonaws.com`.
 * @param isRestrictive whether the rule denies or requires an approval
 */
export function compileMatcher(operator: ValueOperator, value: unknown, isRestrictive: boolean): Matcher {
  const values: unknown[] = Array.isArray(value) ? value : [value]
  if (!values.every(isScalar)) throw new TypeError(`\`${operator}\` compares only text, numbers and booleans`)
  switch (operator) {
    case 'equals':
    case 'in':
      return membership(values, false, isRestrictive)
    case 'not_in':
      return membership(values, true, isRestrictive)
    case 'contains':
      return containment(values, isRestrictive)
    case 'startswith':
      return beginning(String(values[0]), isRestrictive)
    case 'domain_in':
      return domains(values.map(String), false, isRestrictive ? isWithin : isOwnedBy)
    case 'domain_not_in':
      return domains(values.map(String), true, isRestrictive ? isOwnedBy : isWithin)
    default:
      throw new TypeError(`unknown operator \`${String(operator)}\``)
  }
}

function isScalar(value: unknown): value is Scalar {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
}

const one = (matches: boolean) => (matches ? matched : failed)
const fold = (value: Scalar) => (typeof value === 'string' ? comparable(value) : value)

function membership(values: readonly Scalar[], isNegative: boolean, isRestrictive: boolean): Matcher {
  // In a Set, a text never equals a number, and numbers are compared by value.
  const set = new Set<Scalar>(values.map(fold))
  const texts = [...set].flatMap((text) => (typeof text === 'string' ? [{ text, isId: isFileId(text) }] : []))
  const places = new WantedPlaces(values, isRestrictive, isNegative)
  return {
    isNegative,
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
      // Only a part of the text is known. The whole text may be a link to a listed place, or a text that cannot be read
      // as a place.
      if (hole.kind !== null && places.hasTexts) return maybe
      budget.spend(texts.length >> 4)
      for (const { text, isId } of texts)
        if (hole.mayBecome(text, budget) || (isId && hole.mayBecomeLink)) return maybe
      return tri(isNegative)
    },
  }
}

/** A leaf matches if it contains one of the values. */
function containment(values: readonly Scalar[], isRestrictive: boolean): Matcher {
  const wanted = values.map((value) => ({ value, folded: fold(value) }))
  const isPart = (text: string, { value, folded }: (typeof wanted)[number], budget: Budget): boolean =>
    typeof value === 'string' &&
    (includesText(text, value, budget) || (folded !== value && includesText(text, String(folded), budget)))
  const places = new WantedPlaces(values, isRestrictive)
  return {
    isNegative: false,
    leaf(leaf, budget) {
      const holds = (each: (typeof wanted)[number]): boolean => {
        budget.spendOnText(leaf.raw)
        if (leaf.inList || typeof each.value !== 'string') return leaf.value === each.folded
        return typeof leaf.raw === 'string' && isPart(leaf.raw, each, budget)
      }
      if (wanted.some(holds)) return matched
      if (leaf.kind === null) return failed
      return byPlace(leaf, leaf.kind, leaf.inList ? equal : includes, places, isRestrictive, budget)
    },
    prefix(_, hole, budget) {
      // In a list, `contains` means equality. The known pieces cannot decide whether a whole text is equal.
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

function beginning(value: string, isRestrictive: boolean): Matcher {
  const folded = comparable(value)
  const places = new WantedPlaces([value], isRestrictive)
  return {
    isNegative: false,
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

type Comparison = (spelling: string, part: string, budget: Budget) => boolean
const equal: Comparison = (spelling, part) => spelling === part
const includes: Comparison = includesText
const starts: Comparison = (spelling, part) => spelling.startsWith(part)

/**
 * Reads the leaf's text as a place, such as a repository. Compares this place with the rule's texts. Call this function
 * only if the leaf's text itself does not match.
 */
function byPlace(
  leaf: Leaf,
  kind: PlaceKind,
  holds: Comparison,
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

function domains(
  values: readonly string[],
  isNegative: boolean,
  holds: (host: string, domain: string) => boolean,
): Matcher {
  const normal = new Set(values.map(domainOf))
  // Looks up the host and its parent domains in the set. So a rule with 1,000 domains costs as much as a rule with
  // one.
  const isInside = ({ host, domains: above }: ReadHost) => {
    for (const domain of above) if (normal.has(domain) && holds(host, domain)) return true
    return false
  }
  const matches = (host: ReadHost) => isInside(host) !== isNegative
  return {
    isNegative,
    leaf(leaf, budget) {
      if (leaf.isIncidental !== false && (typeof leaf.raw !== 'string' || !/@|:\/\//.test(leaf.raw))) {
        return leaf.isIncidental === 'maybe' ? unsure : 0
      }
      if (typeof leaf.raw !== 'string') return one(isNegative)
      const hosts = budget.once(leaf.raw, readHosts)
      budget.spend(4)
      let result = 0
      for (const host of hosts) {
        // Each part of the host's name costs one lookup. The cost assumes that a part has 8 characters.
        budget.spend(1 + (host.host.length >> 3))
        result |= one(matches(host))
      }
      return result
    },
    prefix(_, hole, budget) {
      return budget.once(hole.outline, readSettledHosts).some(matches) ? yes : maybe
    },
  }
}

function domainOf(text: string): string {
  const read = ruleDomain(text)
  if ('issue' in read) throw new TypeError(read.issue)
  return read.domain
}

function readHosts(text: string, budget: Budget): readonly ReadHost[] {
  return hostsIn(text, budget).map(withDomains)
}

function readSettledHosts(outline: string, budget: Budget): readonly ReadHost[] {
  return settledHosts(outline, budget).map(withDomains)
}

/**
 * Returns a host with every domain that contains the host. The first of these domains is the host itself. Both fields
 * are empty if the text cannot be read as a host.
 */
function withDomains(host: Host): ReadHost {
  const domains: string[] = []
  for (let at = 0; host !== null && at >= 0; at = host.indexOf('.', at) + 1 || -1)
    domains.push(host.slice(at))
  return { host: host ?? '', domains }
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
  if (matcher.isNegative && found.isMissing) return yes
  if (!matcher.isNegative)
    for (const leaf of found.defaults) if ((matcher.leaf(leaf, budget) & matched) !== 0) return yes
  let result: Tri = (bits & unsure) !== 0 ? maybe : no
  for (const hole of found.holes) {
    const each = matchHole(matcher, hole, budget)
    if (each > result) result = each
  }
  if (result !== no || !matcher.isNegative) return result
  return tri(bits === 0 && found.holes.length === 0)
}

function matchHole(matcher: Matcher, hole: Hole, budget: Budget): Tri {
  return hole.prefix === null ? maybe : matcher.prefix(hole.prefix, hole, budget)
}
