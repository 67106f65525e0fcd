import { X509Certificate } from 'node:crypto'
import { SAML, ValidateInResponseTo } from '@node-saml/node-saml'
import { DOMParser } from '@xmldom/xmldom'
import { DomainError } from '../errors.ts'
import { ProviderTrouble, SignInDenied, type Claims } from './oidc.ts'

/*
 * SAML 2.0: what a provider is asked, and what its answer says. The library checks the signature. Before, this file
 * refuses each form of a message that an honest provider does not send, so that a forged one has no place to hide.
 */

export interface SamlClient {
  /** The provider’s name of itself (entity id). */
  readonly issuer: string
  readonly ssoUrl: string
  /** PEM. */
  readonly certificates: readonly string[]
  /** Our own name, which is the address of our metadata. */
  readonly entityId: string
  /** Where the provider sends the answer. */
  readonly acsUrl: string
}

export const mostCertificates = 5
/** Characters of an answer in base64. */
export const longestResponse = 60_000

/** The address at the provider to which the browser goes. `state` comes back as it is. */
export async function samlRequestUrl(client: SamlClient, id: string, state: string): Promise<string> {
  return libraryOf(client, id).getAuthorizeUrlAsync(state, undefined, {})
}

function libraryOf(client: SamlClient, id: string): SAML {
  return new SAML({
    issuer: client.entityId,
    audience: client.entityId,
    callbackUrl: client.acsUrl,
    entryPoint: client.ssoUrl,
    idpCert: validNow(client.certificates),
    idpIssuer: client.issuer,
    identifierFormat: null,
    disableRequestedAuthnContext: true,
    wantAssertionsSigned: true,
    // Entra ID signs only the assertion, which has all that counts.
    wantAuthnResponseSigned: false,
    signatureAlgorithm: 'sha256',
    acceptedClockSkewMs: skewMs,
    maxAssertionAgeMs: 600_000,
    generateUniqueId: () => id,
    validateInResponseTo: ValidateInResponseTo.always,
    // The attempt is a row of ours, which is gone already.
    cacheProvider: {
      saveAsync: async (_key, value) => ({ value, createdAt: Date.now() }),
      getAsync: async (key) => (key === id ? new Date().toISOString() : null),
      removeAsync: async (key) => key,
    },
  })
}

const skewMs = 60_000

/** Throws `ProviderTrouble` if none is valid now. */
function validNow(certificates: readonly string[]): string[] {
  const now = new Date()
  const valid = certificates.filter((pem) => {
    const { validFromDate: from, validToDate: to } = new X509Certificate(pem)
    return from <= now && now <= to
  })
  if (valid.length > 0) return valid
  throw new ProviderTrouble(
    'each certificate of your provider has expired, or is not valid yet: ask an owner to add the new one to the sign-in',
  )
}

/** What is wrong with a certificate; null if it can be used. */
export function refusalOfCertificate(pem: string): string | null {
  try {
    const { publicKey } = new X509Certificate(pem)
    if (!/^\s*-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\s*$/.test(pem))
      return 'must be one certificate'
    const isStrong =
      publicKey.asymmetricKeyType === 'rsa' && (publicKey.asymmetricKeyDetails?.modulusLength ?? 0) >= 2_048
    return isStrong ? null : 'must have an RSA key of at least 2,048 bits'
  } catch {
    return 'is no certificate in PEM: it begins with `-----BEGIN CERTIFICATE-----`'
  }
}

/** Throws `ProviderTrouble` if no certificate is valid now. */
export function requireValidCertificate({ certificates }: Pick<SamlClient, 'certificates'>): void {
  validNow(certificates)
}

/**
 * What the answer says about the person, with the names of OpenID Connect. `id` is that of our own request. Throws
 * `SignInDenied`, `ProviderTrouble`.
 */
export async function claimsOfSaml(client: SamlClient, id: string, response: string): Promise<Claims> {
  const read = readForm(response, client, id)
  const { profile } = await libraryOf(client, id)
    .validatePostResponseAsync({ SAMLResponse: response })
    .catch(() => {
      throw denied('is not signed by a certificate of it, has expired, or is for another service')
    })
  // Both have read the same message, so that nothing hides between two readers.
  if (profile === null || profile.nameID.trim() !== read.nameId) throw denied('cannot be read')
  if (read.format === transient)
    throw new ProviderTrouble(
      'your provider sends another name for you each time (`transient`): ask whoever runs it for a persistent one',
    )
  const attributes = (profile['attributes'] ?? {}) as Record<string, unknown>
  const one = (names: readonly string[]): unknown =>
    names.map((name) => attributes[name]).find((value) => typeof value === 'string')
  const lists = Object.entries(attributes).map(([name, value]) => [
    name,
    Array.isArray(value) ? value : [value],
  ])
  return {
    ...Object.fromEntries(lists),
    sub: read.nameId,
    email: one(emailNames) ?? (read.format === emailFormat ? read.nameId : undefined),
    name: one(nameNames),
    email_verified: undefined,
    amr: read.contexts.some((each) => factorContexts.has(each)) ? ['mfa'] : [],
    sid: profile.sessionIndex,
  }
}

const transient = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient'
const emailFormat = 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress'
const claims2005 = 'http://schemas.xmlsoap.org/ws/2005/05/identity/claims'
const emailNames = [
  'email',
  'mail',
  'emailAddress',
  `${claims2005}/emailaddress`,
  'urn:oid:0.9.2342.19200300.100.1.3',
]
const nameNames = ['name', 'displayName', `${claims2005}/name`, 'urn:oid:2.16.840.1.113730.3.1.241']
const factorContexts: ReadonlySet<string> = new Set([
  'https://refeds.org/profile/mfa',
  'http://schemas.microsoft.com/claims/multipleauthn',
  'urn:oasis:names:tc:SAML:2.0:ac:classes:MobileTwoFactorContract',
  'urn:oasis:names:tc:SAML:2.0:ac:classes:TimeSyncToken',
])

const denied = (why: string): DomainError =>
  new DomainError(
    'insufficient_role',
    `the answer of your provider ${why}: begin again, or ask whoever runs it`,
  )

const protocol = 'urn:oasis:names:tc:SAML:2.0:protocol'
const assertion = 'urn:oasis:names:tc:SAML:2.0:assertion'
const signature = 'http://www.w3.org/2000/09/xmldsig#'

/** Elements that a message has exactly once, with their namespace and the name of their parent. */
const single: readonly (readonly [string, string, string])[] = [
  ['Response', protocol, '#document'],
  ['Status', protocol, 'Response'],
  ['Assertion', assertion, 'Response'],
  ['Subject', assertion, 'Assertion'],
  ['NameID', assertion, 'Subject'],
  ['SubjectConfirmation', assertion, 'Subject'],
  ['SubjectConfirmationData', assertion, 'SubjectConfirmation'],
  ['Conditions', assertion, 'Assertion'],
  ['AudienceRestriction', assertion, 'Conditions'],
  ['AuthnStatement', assertion, 'Assertion'],
]

/** What stands beside the assertion is not signed, and is not read but for its status. */
const aroundAssertion: ReadonlySet<string> = new Set([
  'Response',
  'Issuer',
  'Status',
  'StatusCode',
  'StatusMessage',
])
/** No others sign, digest or change a message: no SHA-1, and no form with comments. */
const algorithms: ReadonlySet<string> = new Set([
  'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256',
  'http://www.w3.org/2001/04/xmldsig-more#rsa-sha512',
  'http://www.w3.org/2001/04/xmlenc#sha256',
  'http://www.w3.org/2001/04/xmlenc#sha512',
  'http://www.w3.org/2000/09/xmldsig#enveloped-signature',
  'http://www.w3.org/2001/10/xml-exc-c14n#',
])

interface Read {
  readonly nameId: string
  readonly format: string | null
  readonly contexts: readonly string[]
}

/** Throws `SignInDenied` for everything that an honest provider does not send, and for another request than ours. */
function readForm(response: string, client: SamlClient, id: string): Read {
  const elements = elementsOf(response)
  const named = (name: string): Element[] => elements.filter((each) => each.localName === name)
  if (named('EncryptedAssertion').length > 0 || named('EncryptedID').length > 0)
    throw new ProviderTrouble(
      'your provider encrypts its answer, and Countersign reads only signed ones: ask whoever runs it to send it signed and not encrypted',
    )
  requireSuccess(named('StatusCode'))
  for (const [name, space, parent] of single) {
    const [found, more] = named(name)
    if (found === undefined || more !== undefined) throw denied(`has no \`${name}\`, or several`)
    if (found.namespaceURI !== space || parentOf(found) !== parent)
      throw denied(`has \`${name}\` in another place`)
  }
  requireSignatures(elements)
  const [[root], [signed], [at]] = [named('Response'), named('Assertion'), named('SubjectConfirmationData')]
  const inside = Array.from(signed?.getElementsByTagName('*') ?? [])
  const outside = elements.filter(
    (each) => each !== signed && !inside.includes(each) && each.namespaceURI !== signature,
  )
  if (outside.some((each) => !aroundAssertion.has(each.localName ?? ''))) throw denied('has unknown parts')
  const textsOf = (name: string): string[] =>
    inside
      .filter((each) => each.localName === name && each.namespaceURI === assertion)
      .map((each) => (each.textContent ?? '').trim())
  const issuers = elements.filter((each) => each.localName === 'Issuer')
  const isIssuer = (each: Element): boolean =>
    each.namespaceURI === assertion && (each.textContent ?? '').trim() === client.issuer
  if (!issuers.some((each) => each.parentNode === signed) || !issuers.every(isIssuer))
    throw denied('has another issuer than the sign-in names')
  const audiences = textsOf('Audience')
  const until = Date.parse(at?.getAttribute('NotOnOrAfter') ?? '')
  const isOurs =
    root?.getAttribute('Destination') === client.acsUrl &&
    root.getAttribute('InResponseTo') === id &&
    at?.getAttribute('Recipient') === client.acsUrl &&
    at.getAttribute('InResponseTo') === id &&
    named('SubjectConfirmation')[0]?.getAttribute('Method') === 'urn:oasis:names:tc:SAML:2.0:cm:bearer' &&
    audiences.includes(client.entityId)
  if (!isOurs) throw denied('is for another service or another sign-in')
  if (!(until > Date.now() - skewMs)) throw denied('has expired')
  const [name] = named('NameID')
  return {
    nameId: (name?.textContent ?? '').trim(),
    format: name?.getAttribute('Format') ?? null,
    contexts: textsOf('AuthnContextClassRef'),
  }
}

const parentOf = ({ parentNode }: Element): string | undefined => {
  const parent = parentNode as Element | null
  return parent?.nodeType === 9 ? '#document' : (parent?.localName ?? undefined)
}

function requireSuccess(codes: readonly Element[]): void {
  const [code] = codes
  if (codes.length === 1 && code?.getAttribute('Value') === 'urn:oasis:names:tc:SAML:2.0:status:Success')
    return
  throw new SignInDenied((code?.getAttribute('Value') ?? 'no status').split(':').at(-1)?.slice(0, 100) ?? '')
}

/** Each signature stands in what it signs, the assertion has one, and no two elements share an id. */
function requireSignatures(elements: readonly Element[]): void {
  const signatures = elements.filter((each) => each.localName === 'Signature')
  const parents = signatures.map(parentOf)
  const isRight =
    parents.filter((each) => each === 'Assertion').length === 1 &&
    parents.filter((each) => each === 'Response').length <= 1
  if (!isRight || signatures.length > 2) throw denied('has no signature in its assertion, or too many')
  for (const each of signatures)
    if (each.getElementsByTagNameNS(signature, 'Reference').length !== 1)
      throw denied('signs several things at once')
  if (elements.some((each) => each.namespaceURI === signature && each.localName === 'Object'))
    throw denied('has unknown parts')
  const ids = elements.flatMap((each) =>
    ['ID', 'Id', 'id'].map((name) => each.getAttribute(name)).filter(Boolean),
  )
  if (new Set(ids).size !== ids.length) throw denied('has two parts with one id')
  const used = elements.flatMap((each) => each.getAttribute('Algorithm') ?? []).filter(Boolean)
  if (used.some((each) => !algorithms.has(each)))
    throw new ProviderTrouble(
      'your provider signs with an algorithm that is not accepted, such as SHA-1: ask whoever runs it for RSA with SHA-256',
    )
}

/** All elements. No comments, entities, instructions or CDATA, which two readers may read differently. */
function elementsOf(response: string): Element[] {
  if (response.length > longestResponse || !/^[A-Za-z0-9+/\s]+={0,2}\s*$/.test(response))
    throw denied('cannot be read')
  const xml = Buffer.from(response, 'base64')
    .toString('utf8')
    .replace(/^<\?xml [^?]*\?>/, '')
  if (/<[!?]/.test(xml) || !xml.isWellFormed())
    throw denied('has parts that are not accepted, such as comments')
  const fail = (): never => {
    throw denied('cannot be read')
  }
  const document = new DOMParser({
    errorHandler: { warning: fail, error: fail, fatalError: fail },
  }).parseFromString(xml, 'text/xml')
  const roots = Array.from(document.childNodes).filter((each) => each.nodeType === 1)
  if (roots.length !== 1) fail()
  return Array.from(document.getElementsByTagName('*'))
}

/** What a provider reads to register this service. */
export const samlMetadata = ({ entityId, acsUrl }: Pick<SamlClient, 'entityId' | 'acsUrl'>): string =>
  `<?xml version="1.0"?><EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${entityId}">` +
  `<SPSSODescriptor AuthnRequestsSigned="false" WantAssertionsSigned="true" protocolSupportEnumeration="${protocol}">` +
  `<NameIDFormat>urn:oasis:names:tc:SAML:2.0:nameid-format:persistent</NameIDFormat>` +
  `<AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="${acsUrl}" index="0" isDefault="true"/>` +
  `</SPSSODescriptor></EntityDescriptor>`
