import { domainToASCII } from 'node:url'
import { z } from 'zod'

/** `invited`: people with an open invitation. `domain`: people whose mail address has one of these domains. */
export type SignUp =
  | { readonly mode: 'open' | 'invited' | 'closed' }
  | {
      readonly mode: 'domain'
      /** Are in ASCII and lower case. Subdomains do not count. */ readonly domains: readonly string[]
    }

const hint = 'write `open`, `invited`, `closed`, or `domain:acme.com` (several with commas)'

export const signUpSetting = z.string().transform((text, context): SignUp => {
  const wrong = (why: string): SignUp => {
    context.addIssue({ code: 'custom', message: `${why}: ${hint}` })
    return { mode: 'closed' }
  }
  if (text === 'open' || text === 'invited' || text === 'closed') return { mode: text }
  if (!text.startsWith('domain:')) return wrong(`\`${text}\` is not known`)
  const named = text.slice('domain:'.length).split(',')
  const domains = named.map((domain) => asciiDomain(domain.trim()))
  const unreadable = domains.indexOf(null)
  if (unreadable >= 0) return wrong(`\`${named[unreadable]}\` is not a mail domain`)
  return { mode: 'domain', domains: domains.filter((domain) => domain !== null) }
})

/** Subdomains do not count. */
export function isOfDomain(email: string, domains: readonly string[]): boolean {
  const domain = asciiDomain(email.slice(email.lastIndexOf('@') + 1))
  return domain !== null && domains.includes(domain)
}

/** In punycode and lower case; null for no domain name with at least two parts. */
export function asciiDomain(text: string): string | null {
  const ascii = domainToASCII(text).toLowerCase()
  const isName = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(
    ascii,
  )
  return isName ? ascii : null
}
