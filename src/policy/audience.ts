import { isOwnedBy, normalHost, ruleDomain } from './readers/hosts.ts'

/**
 * One list of domains for each policy that limits who can read what a call writes to. A reader must be within each
 * list.
 */
export type Audience = readonly (readonly string[])[]

/** Somebody who can read what a call writes to, as its service names them. A group counts by its own address. */
export type Reader =
  | { readonly kind: 'address'; readonly address: string }
  | { readonly kind: 'domain'; readonly domain: string }
  /** Everybody, or somebody whom the service does not name. */
  | { readonly kind: 'anybody' }

/** Whether every reader is within each of the lists. A domain also covers its subdomains that have the same owner. */
export const isWithinAudience = (audience: Audience, readers: readonly Reader[]): boolean =>
  audience.every((list) => {
    const domains = list.map(domainOf)
    return readers.every((reader) => {
      const host = hostOf(reader)
      return host !== null && domains.some((domain) => domain !== null && isOwnedBy(host, domain))
    })
  })

/** The host of a reader's address or domain; null if it cannot be determined with certainty. */
function hostOf(reader: Reader): string | null {
  if (reader.kind === 'anybody') return null
  if (reader.kind === 'domain') return normalHost(reader.domain)
  const [, host] = /^[^\s@<>"(),;:[\]\\]+@([^\s@<>"(),;:[\]\\]+)$/.exec(reader.address) ?? []
  return host === undefined ? null : normalHost(host)
}

function domainOf(text: string): string | null {
  const read = ruleDomain(text)
  return 'domain' in read ? read.domain : null
}
