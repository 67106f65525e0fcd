import type { Budget, ReadHost } from '../budget.ts'
import { isOwnedBy, isWithin, ruleDomain } from '../readers/hosts.ts'
import { type Host, hostsIn, settledHosts } from '../readers/recipients.ts'
import type { Steps, Json } from '../types.ts'
import { maybe, yes } from '../tri.ts'
import { list, quote } from '../text.ts'
import { byMatcher, comparesWithList, comparison, isSubset, negationOf } from './comparison.ts'
import { type Matcher, one, unsure } from './matcher.ts'
import type { Operand, Operator, OfWhen, Scalar } from './operator.ts'
import { domain, listed } from './operands.ts'

const operand: Operand<string[]> = { form: 'Domain', schema: listed(domain) }

const examples = (values: readonly Scalar[]): Json[] => [
  ...values.flatMap((each) => [`someone@${each}`, `someone@sub.${each}`]),
  'someone@outside.example',
]

const compareIssues: OfWhen['compareIssues'] = (compare, operator) => {
  const issues = comparesWithList(compare, operator)
  if (issues.length > 0 || !Array.isArray(compare)) return issues
  return compare.flatMap((each) => {
    const read = ruleDomain(typeof each === 'string' ? each : JSON.stringify(each))
    return 'issue' in read ? [read.issue] : []
  })
}

const when = byMatcher({
  name: 'domain_in',
  matcher: (values) => domains(values, false, isWithin),
  compareIssues,
  // Each domain must be parsed.
  costOf: (length) => 2 * length,
})

export const domainIn = {
  name: 'domain_in',
  rules: comparison({
    operand,
    comparesDomains: true,
    matcher: (values, isRestrictive) => domains(values, false, isRestrictive ? isWithin : isOwnedBy),
    words: (param, values) => `${param} is in ${list(values.map(String).map(quote), 'or')}`,
    verb: 'is',
    examples,
    implies: (narrow, wide, { isAllow, steps }) => domainsWithin(narrow, wide, isAllow, steps),
  }),
  when,
} as const satisfies Operator

export const domainNotIn = {
  name: 'domain_not_in',
  rules: comparison({
    operand,
    fitsAbsent: true,
    comparesDomains: true,
    matcher: (values, isRestrictive) => domains(values, true, isRestrictive ? isOwnedBy : isWithin),
    words: (param, values) => `${param} is outside ${list(values.map(String).map(quote), 'and')}`,
    verb: 'is',
    examples,
  }),
  when: negationOf(when),
} as const satisfies Operator

function domains(
  values: readonly Scalar[],
  isNegative: boolean,
  holds: (host: string, domain: string) => boolean,
): Matcher {
  const normal = new Set(values.map(domainOf))
  // Looks up the host and its parents, so 1,000 domains cost as much as one.
  const isInside = ({ host, domains: above }: ReadHost) => {
    for (const domain of above) if (normal.has(domain) && holds(host, domain)) return true
    return false
  }
  const matches = (host: ReadHost) => isInside(host) !== isNegative
  return {
    fitsAbsent: isNegative,
    leaf(leaf, budget) {
      if (leaf.isIncidental !== false && (typeof leaf.raw !== 'string' || !/@|:\/\//.test(leaf.raw))) {
        return leaf.isIncidental === 'maybe' ? unsure : 0
      }
      if (typeof leaf.raw !== 'string') return one(isNegative)
      const hosts = budget.once(leaf.raw, readHosts)
      budget.spend(4)
      let result = 0
      for (const host of hosts) {
        // One lookup for each part of the name, taken as 8 characters.
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

function domainOf(value: Scalar): string {
  const read = ruleDomain(String(value))
  if ('issue' in read) throw new TypeError(read.issue)
  return read.domain
}

function readHosts(text: string, budget: Budget): readonly ReadHost[] {
  return hostsIn(text, budget).map(withDomains)
}

function readSettledHosts(outline: string, budget: Budget): readonly ReadHost[] {
  return settledHosts(outline, budget).map(withDomains)
}

/** The host itself comes first. Both fields are empty for no host. */
function withDomains(host: Host): ReadHost {
  const domains: string[] = []
  for (let at = 0; host !== null && at >= 0; at = host.indexOf('.', at) + 1 || -1)
    domains.push(host.slice(at))
  return { host: host ?? '', domains }
}

/** In rules that restrict, a domain covers all below it; in `allow` rules, perhaps another owner's are not. */
function domainsWithin(
  narrow: readonly Scalar[],
  wide: readonly Scalar[],
  isAllow: boolean,
  steps: Steps,
): boolean {
  if (isSubset(narrow, wide)) return true
  if (isAllow || !steps.take((narrow.length + wide.length) * stepsOfDomain)) return false
  const above = new Set(wide.flatMap((value) => domainsAbove(value).slice(0, 1)))
  return narrow.every((value) => domainsAbove(value).some((each) => above.has(each)))
}

/** Reading a domain takes about as long. */
const stepsOfDomain = 10

/** The domain and all above it; nothing if it cannot be read. */
function domainsAbove(value: Scalar): readonly string[] {
  const read = ruleDomain(String(value))
  return 'domain' in read ? withDomains(read.domain).domains : []
}
