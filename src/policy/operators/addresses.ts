import type { Budget } from '../budget.ts'
import { normalHost } from '../readers/hosts.ts'
import { otherReadings } from '../readers/text-variants.ts'
import { maybe, no } from '../tri.ts'
import { failed, matched, type Matcher } from './matcher.ts'
import type { Scalar } from './operator.ts'

export type HoldsAddress = (address: string, inList: boolean, budget: Budget) => boolean

/** Also compares each address in a text: `boss@acme.com` matches `Boss <boss@acme.com>`. It only adds matches. */
export function alsoByAddress(matcher: Matcher, holds: HoldsAddress): Matcher {
  return {
    fitsAbsent: false,
    leaf(leaf, budget) {
      const result = matcher.leaf(leaf, budget)
      if ((result & matched) !== 0 || typeof leaf.raw !== 'string' || !hasAtSign.test(leaf.raw)) return result
      for (const address of budget.once(leaf.raw, addressesIn)) {
        if (holds(address, leaf.inList, budget)) return result | matched
      }
      return result === 0 ? failed : result
    },
    // The unknown rest may contain a recipient that matches.
    prefix(prefix, hole, budget) {
      const result = matcher.prefix(prefix, hole, budget)
      return result === no ? maybe : result
    },
  }
}

const isText = (value: Scalar): value is string => typeof value === 'string'

/** In the form in which addresses are compared. */
export function wholeAddresses(values: readonly Scalar[]): ReadonlySet<string> {
  return new Set(
    values
      .filter(isText)
      .map(normalAddress)
      .filter((each) => each !== null),
  )
}

export function partsOfAddresses(values: readonly Scalar[]): readonly string[] {
  const parts = values.filter(isText).filter((text) => text !== '' && isPartOfAddress(text))
  // The rule may spell the host of a whole address in another way than the call.
  return [...parts.map((text) => text.toLowerCase()), ...wholeAddresses(values)]
}

export const isOneOf =
  (addresses: ReadonlySet<string>): HoldsAddress =>
  (address, _, budget) => {
    budget.spend(1)
    return addresses.has(address)
  }

/** An `@`, or what other programs may decode to one (readers/text-variants.ts). */
const hasAtSign = /@|\uff20|\ufe6b|=\?/

const isPartOfAddress = (text: string): boolean => !/[\s,;:<>()"'[\]\\/]/.test(text)

/** Null unless the text is exactly one address. */
function normalAddress(text: string): string | null {
  const at = text.indexOf('@')
  if (at < 1 || text.includes('@', at + 1) || !isPartOfAddress(text)) return null
  return addressOf(text.slice(0, at), text.slice(at + 1))
}

/** Every address that some program could find: the text around an `@`, in lower case. Takes linear time. */
export function addressesIn(text: string, budget: Budget): string[] {
  return [...new Set([text, ...otherReadings(text)].flatMap((each) => addressesAsWritten(each, budget)))]
}

function addressesAsWritten(text: string, budget: Budget): string[] {
  budget.spend(1 + (text.length >> 5))
  const found: string[] = []
  for (let at = text.indexOf('@'); at >= 0; at = text.indexOf('@', at + 1)) {
    budget.spend(2)
    const local = localBefore(text, at)
    const domain = domainAfter(text, at)
    if (local !== '' && domain !== '') found.push(addressOf(local, domain))
  }
  return found
}

function addressOf(local: string, domain: string): string {
  return `${local.toLowerCase()}@${normalHost(domain) ?? domain.toLowerCase()}`
}

/** The longest local part of an address that is read. RFC 5321 allows 64. */
const longestLocal = 256
const ends = new Set(' \t\n\r,;:<>()"\'[]\\/@')
/** In a link, other characters can follow the address: `mailto:boss@acme.com?subject=x`. */
const domainEnds = new Set([...ends, '?', '#', '&', '=', '%', '|'])
const isBlank = (char: string | undefined): boolean => char !== undefined && char.trim() === ''

function localBefore(text: string, at: number): string {
  let end = at
  while (end > 0 && at - end < longestLocal && isBlank(text[end - 1])) end--
  if (text[end - 1] === '"') {
    const start = text.lastIndexOf('"', end - 2)
    // `"boss"@acme.com` is delivered to boss@acme.com.
    return start < 0 || end - start > longestLocal ? '' : text.slice(start + 1, end - 1)
  }
  let start = end
  while (start > 0 && end - start < longestLocal && !ends.has(text[start - 1] as string)) start--
  return text.slice(start, end)
}

function domainAfter(text: string, at: number): string {
  let start = at + 1
  while (start - at < longestLocal && isBlank(text[start])) start++
  let end = start
  while (end < text.length && end - start < 2 * longestLocal && !domainEnds.has(text[end] as string)) end++
  return text.slice(start, end)
}
