import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { deflateRawSync, inflateRawSync } from 'node:zlib'

/* The SAML provider of the package `samlp`, with certificates of our own, which it signs with. */

const read = (name: string): string => readFileSync(new URL(`saml/${name}.pem`, import.meta.url), 'utf8')
export const certificates = {
  own: read('own-cert'),
  other: read('other-cert'),
  expired: read('expired-cert'),
}
const keys = { own: read('own-key'), other: read('other-key') }

export const samlIssuer = 'https://idp.acme.example/saml'
export const samlAddress = 'https://idp.acme.example/sso'

export interface SamlPerson {
  readonly id: string
  readonly attributes: Readonly<Record<string, unknown>>
  readonly format?: string
}

type Handler = (xml: Buffer, options: object, request: object, response: object, next: object) => void
type Auth = (options: object) => (request: object, response: object, next: (error: unknown) => void) => void
const samlp = createRequire(import.meta.url)('samlp') as { auth: Auth }

/** What the provider sends for a request, as XML. `options` are those of `samlp`. */
export function answerTo(url: string, person: SamlPerson, options: object = {}): Promise<string> {
  const query = Object.fromEntries(new URL(url).searchParams)
  const request = inflateRawSync(Buffer.from(query['SAMLRequest'] ?? '', 'base64')).toString()
  const acs = /AssertionConsumerServiceURL="([^"]+)"/.exec(request)?.[1] ?? ''
  return new Promise((resolve, reject) => {
    const responseHandler: Handler = (xml) => resolve(xml.toString())
    const profile = {
      getClaims: () => person.attributes,
      getNameIdentifier: () => ({
        nameIdentifier: person.id,
        nameIdentifierFormat: person.format ?? 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent',
      }),
    }
    const usual = {
      issuer: samlIssuer,
      cert: certificates.own,
      key: keys.own,
      destination: acs,
      recipient: acs,
      sessionIndex: '_session',
      authnContextClassRef: 'urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport',
      lifetimeInSeconds: 300,
      profileMapper: () => profile,
      getPostURL: (...given: unknown[]) => (given.at(-1) as (error: null, url: string) => void)(null, acs),
      getUserFromRequest: () => person,
      responseHandler,
    }
    samlp.auth({ ...usual, ...options })({ method: 'GET', query }, {}, reject)
  })
}

/** Signed with the key of somebody else, whose certificate the message has. */
export const byOther = { cert: certificates.other, key: keys.other }

/** The same request with another id. */
export function withOtherId(url: string): string {
  const changed = new URL(url)
  const xml = inflateRawSync(Buffer.from(changed.searchParams.get('SAMLRequest') ?? '', 'base64')).toString()
  changed.searchParams.set(
    'SAMLRequest',
    deflateRawSync(xml.replace(/ID="[^"]+"/, 'ID="_other"')).toString('base64'),
  )
  return changed.href
}
