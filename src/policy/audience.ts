import { isOwnedBy, normalHost, ruleDomain } from './readers/hosts.ts'

/**
 * The people who may read the document or folder that a call writes to. Each tool policy that limits them has one list
 * of domains. Everybody who can read the document or folder must belong to a domain of each list.
 */
export type Audience = readonly (readonly string[])[]

/**
 * A person, group or domain that can read the document or folder, as its service names them. For a group, only its own
 * address is checked, and not the addresses of its members.
 */
export type Reader =
  | { readonly kind: 'address'; readonly address: string }
  | { readonly kind: 'domain'; readonly domain: string }
  /** Everybody, or somebody whom the service does not name. */
  | { readonly kind: 'anybody' }

/**
 * Whether every reader belongs to a domain of each list. A domain also covers its subdomains that have the same owner.
 */
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
