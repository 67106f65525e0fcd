import { isOwnedBy, normalHost, ruleDomain } from './readers/hosts.ts'

/**
 * Limits who may read the document or folder that a call writes to. Each tool policy with such a limit adds one list of
 * domains. Each reader must belong to a domain of every list. Example: `[['acme.com', 'acme.de'], ['acme.com']]` allows
 * only readers of `acme.com`.
 */
export type Audience = readonly (readonly string[])[]

/**
 * A person, group or domain that can read the document or folder, as the service of the document or folder names it.
 * For a group, only the address of the group itself is checked, and not the addresses of the members.
 */
export type Reader =
  | { readonly kind: 'address'; readonly address: string }
  | { readonly kind: 'domain'; readonly domain: string }
  /** Everybody, or somebody whom the service does not name. */
  | { readonly kind: 'anybody' }

/**
 * Returns whether every reader belongs to a domain of each list. A reader in a subdomain belongs to the domain too, if
 * the subdomain and the domain have the same owner.
 */
export const isWithinAudience = (audience: Audience, readers: readonly Reader[]): boolean =>
  audience.every((list) => {
    const domains = list.map(domainOf)
    return readers.every((reader) => {
      const host = hostOf(reader)
      return host !== null && domains.some((domain) => domain !== null && isOwnedBy(host, domain))
    })
  })

/** Returns the host of a reader's address or domain. Returns null if the host is not certain. */
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
