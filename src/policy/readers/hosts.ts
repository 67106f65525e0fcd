import { getPublicSuffix, parse } from 'tldts'

/** RFC 1035, without the trailing dot. */
const longestHost = 253
/** Before normalization, with room for percent-encoding and punycode. */
const longestText = 1024

const plainHost = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9])?)+$/
const suffixOptions = { allowPrivateDomains: true, extractHostname: false, validateHostname: false }

/** Lower case, punycode, no trailing dots. Null unless a domain with at least two labels, or an IP literal. */
export function normalHost(text: string): string | null {
  if (text.length === 0 || text.length > longestText) return null
  if (plainHost.test(text) && !text.includes('xn--') && !/\d$/.test(text))
    return text.length <= longestHost ? text : null
  // The caller has cut off everything around the host.
  if (/[\s/\\?#@:<>]/.test(text) && !/^\[[0-9a-fA-F:.]+\]$/.test(text)) return null
  // `new URL` would throw, and an error takes ten times as long as `null`.
  const url = URL.parse(`http://${text}`)
  if (url === null) return null
  const host = withoutEndDots(url.hostname)
  if (host.startsWith('[')) return host
  const isDotted = host.includes('.') && !host.startsWith('.') && !host.includes('..')
  return isDotted && host.length <= longestHost && /^[a-z0-9._-]+$/.test(host) ? host : null
}

/** A loop, because a regex for the end of a text takes quadratic time. */
function withoutEndDots(text: string): string {
  let end = text.length
  while (text[end - 1] === '.') end--
  return text.slice(0, end)
}

/** Both must be in normal form. */
export function isWithin(host: string, domain: string): boolean {
  return host === domain || (host.endsWith(domain) && host[host.length - domain.length - 1] === '.')
}

/** Also the same owner: `s3.amazonaws.com` is a public suffix, so `evil.s3.amazonaws.com` is not Amazon's. */
export function isOwnedBy(host: string, domain: string): boolean {
  if (!isWithin(host, domain)) return false
  const suffix = getPublicSuffix(host, suffixOptions)
  return suffix === null || suffix.length < domain.length || host === domain
}

/** A top-level domain of the internet, such as `com`. `localhost` is none. */
const isTopLevel = (name: string): boolean => parse(name, suffixOptions).isIcann === true

/** A bare public suffix (`com`, `co.uk`, `github.io`) is refused, because anybody can register a domain under it. */
export function ruleDomain(text: string): { domain: string } | { issue: string } {
  const trimmed = text.trim()
  const host = normalHost(trimmed)
  const bare = host ?? withoutEndDots(trimmed.toLowerCase())
  const isBare = /^[^\s/@:]+$/.test(bare)
  if (isBare && !bare.includes('.') && !isTopLevel(bare))
    return { issue: `\`${trimmed}\` has no dot: a host with such a name is outside every domain` }
  if (isBare && getPublicSuffix(bare, suffixOptions) === bare) {
    return {
      issue: `\`${trimmed}\` is a public suffix that anybody can register under: name a domain such as \`acme.com\``,
    }
  }
  if (host === null) return { issue: `\`${trimmed}\` is not a domain: write it bare, such as \`acme.com\`` }
  return { domain: host }
}
