import { isOwnedBy, normalHost, ruleDomain } from './readers/hosts.ts'

/** Who may read what a call writes to, by tool policy: a reader must belong to a domain of every list. */
export type Audience = readonly (readonly string[])[]

/** As the document's service names it. Of a group, only its own address is checked, not those of the members. */
export type Reader =
  | { readonly kind: 'address'; readonly address: string }
  | { readonly kind: 'domain'; readonly domain: string }
  | { readonly kind: 'anybody' }

/** A reader in a subdomain belongs to the domain too, if both have the same owner. */
export const isWithinAudience = (audience: Audience, readers: readonly Reader[]): boolean =>
  audience.every((list) => {
    const domains = list.map(domainOf)
    return readers.every((reader) => {
      const host = hostOf(reader)
      return host !== null && domains.some((domain) => domain !== null && isOwnedBy(host, domain))
    })
  })

/** Null if the host is not certain. */
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
