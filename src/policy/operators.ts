import type { Budget } from './budget.ts'
import type { RuleOperator } from './condition.ts'
import { comparable, couldBecomeGoogleLink, isFileId } from './google-links.ts'
import { isOwnedBy, isWithin, ruleDomain } from './hosts.ts'
import { hostsIn, settledHosts } from './recipients.ts'
import { maybe, no, type Tri, tri, yes } from './tri.ts'
import type { Found, Hole, Leaf } from './values.ts'

type Scalar = string | number | boolean

/** What one leaf contributes: that an element matched, that one failed, both (an address list) or neither (blank). */
export const matched = 1
export const failed = 2
/** Whether it counts at all depends on an unknown part. */
export const unsure = 4

/** Compares leaves with what a rule's value says. */
export interface Matcher {
  /** `not_in`, `domain_not_in`: also match what is absent, for restrictive verdicts. */
  readonly isNegative: boolean
  leaf(leaf: Leaf, budget: Budget): number
  /** Whether at least one element of an unknown part matches. Asked only for holes with a prefix. */
  prefix(prefix: string): Tri
}

/** The operators that compare values; `exists` and `from_label` look at presence and origin instead. */
export type ValueOperator = Exclude<RuleOperator, 'exists' | 'from_label'>

/**
 * @param isRestrictive whether the rule denies or holds: where the registrant of a subdomain is not the domain's
 *   (`evil.s3.amazonaws.com`), the reading that restricts is taken
 */
export function compileMatcher(operator: ValueOperator, value: unknown, isRestrictive: boolean): Matcher {
  const values: unknown[] = Array.isArray(value) ? value : [value]
  if (!values.every(isScalar)) throw new TypeError(`\`${operator}\` compares with text, numbers and booleans`)
  switch (operator) {
    case 'equals':
    case 'in':
      return membership(values, false)
    case 'not_in':
      return membership(values, true)
    case 'contains':
      return containment(values[0] ?? '')
    case 'startswith':
      return beginning(String(values[0]))
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

function membership(values: readonly Scalar[], isNegative: boolean): Matcher {
  // A Set tells text from number and compares numbers by value.
  const set = new Set<Scalar>(values.map(fold))
  return {
    isNegative,
    leaf(leaf, budget) {
      budget.spendOnText(leaf.value)
      return one(set.has(leaf.value) !== isNegative)
    },
    prefix(prefix) {
      for (const value of set) if (typeof value === 'string' && mayEqual(prefix, value)) return maybe
      return tri(isNegative)
    },
  }
}

function mayEqual(prefix: string, value: string): boolean {
  return value.startsWith(prefix) || (isFileId(value) && couldBecomeGoogleLink(prefix))
}

function containment(value: Scalar): Matcher {
  const folded = fold(value)
  return {
    isNegative: false,
    leaf(leaf, budget) {
      budget.spendOnText(leaf.raw)
      if (leaf.inList || typeof value !== 'string') return one(leaf.value === folded)
      if (typeof leaf.raw !== 'string') return failed
      return one(leaf.raw.includes(value) || leaf.raw.includes(String(folded)))
    },
    // In a list `contains` is equality, which a prefix alone never settles.
    prefix: () => maybe,
  }
}

function beginning(value: string): Matcher {
  const folded = comparable(value)
  return {
    isNegative: false,
    leaf(leaf, budget) {
      budget.spend(1)
      if (typeof leaf.value !== 'string' || typeof leaf.raw !== 'string') return failed
      return one(leaf.raw.startsWith(value) || leaf.value.startsWith(folded))
    },
    prefix(prefix) {
      if (prefix.startsWith(value)) return yes
      if (value.startsWith(prefix) || folded !== value) return maybe
      return couldBecomeGoogleLink(prefix) ? maybe : no
    },
  }
}

function domains(
  values: readonly string[],
  isNegative: boolean,
  holds: (host: string, domain: string) => boolean,
): Matcher {
  const normal = new Set(values.map(domainOf))
  // By labels from the right, so that a list of 1,000 domains costs no more than the host's own labels.
  const isInside = (host: string | null) => {
    for (let tail = host; tail !== null && host !== null; tail = afterFirstLabel(tail)) {
      if (normal.has(tail) && holds(host, tail)) return true
    }
    return false
  }
  const matches = (host: string | null) => isInside(host) !== isNegative
  return {
    isNegative,
    leaf(leaf, budget) {
      if (leaf.isIncidental !== false && (typeof leaf.raw !== 'string' || !/@|:\/\//.test(leaf.raw))) {
        return leaf.isIncidental === 'maybe' ? unsure : 0
      }
      if (typeof leaf.raw !== 'string') return one(isNegative)
      const hosts = budget.once(leaf.raw, hostsIn)
      budget.spend(4)
      let result = 0
      for (const host of hosts) {
        // every label of it is looked up
        budget.spend(1 + ((host?.length ?? 0) >> 3))
        result |= one(matches(host))
      }
      return result
    },
    prefix(prefix) {
      return settledHosts(prefix)?.some(matches) === true ? yes : maybe
    },
  }
}

function domainOf(text: string): string {
  const read = ruleDomain(text)
  if ('issue' in read) throw new TypeError(read.issue)
  return read.domain
}

function afterFirstLabel(host: string): string | null {
  const dot = host.indexOf('.')
  return dot < 0 ? null : host.slice(dot + 1)
}

/**
 * Applies the quantifier law (contract section 5): a restrictive rule matches if any element matches, `allow` only if
 * all do; of absent values, negative operators match for restrictive verdicts and never for `allow`.
 */
export function quantify(matcher: Matcher, found: Found, isRestrictive: boolean, budget: Budget): Tri {
  let bits = 0
  for (const leaf of found.leaves) {
    bits |= matcher.leaf(leaf, budget)
    if (isRestrictive && (bits & matched) !== 0) return yes
  }
  if (!isRestrictive) {
    if (found.isMissing || (bits & failed) !== 0) return no
    if (found.holes.length > 0 || (bits & unsure) !== 0) return maybe
    return tri((bits & matched) !== 0)
  }
  if (matcher.isNegative && found.isMissing) return yes
  let result: Tri = (bits & unsure) !== 0 ? maybe : no
  for (const hole of found.holes) {
    const each = ofHole(matcher, hole)
    if (each > result) result = each
  }
  if (result !== no || !matcher.isNegative) return result
  return tri(bits === 0 && found.holes.length === 0)
}

function ofHole(matcher: Matcher, hole: Hole): Tri {
  return hole.prefix === null ? maybe : matcher.prefix(hole.prefix)
}
