import { z } from 'zod'
import type { ServiceErrors } from './errors.ts'

export interface TokenServer {
  readonly issuer: string
  readonly authorizationEndpoint: string
  readonly tokenEndpoint: string
  readonly revocationEndpoint: string
  /** An endpoint in the server's list replaces the one above. It must have the issuer's origin. */
  readonly isDescribed: boolean
}

export interface OAuthClient {
  readonly id: string
  readonly secret: string
}

/** A server may take a refresh token only once, so all processes share one stored access token. */
export type Grant =
  | {
      readonly kind: 'refresh_token'
      readonly server: TokenServer
      /** Is null if the operator has removed or replaced the client. */
      readonly client: OAuthClient | null
      readonly refreshToken: string
      /** From the browser. It is revoked with the connection, unless another one has the same account. */
      readonly isOurs: boolean
    }
  | {
      readonly kind: 'service_account'
      readonly tokenEndpoint: string
      readonly email: string
      readonly keyId: string | null
      /** PEM, PKCS #8. */
      readonly privateKey: string
    }

export interface Authorization {
  readonly server: TokenServer
  readonly client: OAuthClient
  readonly scopes: readonly string[]
  /** Parameters that only this server needs. */
  readonly parameters: Readonly<Record<string, string>>
}

export interface IntegrationSettings {
  /** `TRACKER_BASE_URL`. Is null if it is not set. */
  readonly trackerBaseUrl: string | null
  readonly google: {
    /** The client of this installation at Google. Is null if it is not set. */
    readonly client: { readonly id: string; readonly secret: string } | null
    /** `GOOGLE_BASE_URL`. Is null if Google's own addresses are used. */
    readonly baseUrl: string | null
  }
}

/** Sent with the credential's headers to the base address of the integration's API. */
export interface CheckRequest {
  readonly method: 'GET' | 'POST'
  /** Begins with a slash. */
  readonly path: string
}

export interface CheckAnswer {
  readonly status: number
  /** Is undefined if the body is not JSON. */
  readonly json: unknown
}

/** Throws if no answer came. */
export type Ask = (request: CheckRequest) => Promise<CheckAnswer>

/**
 * `account` is null if the service does not name the owner. `why` is one clause for the person who gave the
 * credential. `isBusy`: the check may succeed later, although the status does not say so.
 */
export type Checked =
  | { readonly kind: 'account'; readonly account: string | null }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'unclear'; readonly status: number; readonly isBusy?: boolean }

export interface IntegrationDeclaration<Credential = unknown> {
  readonly name: string
  /** The name as people write it. */
  readonly title: string
  readonly credential: z.ZodType<Credential>
  /** Needed if people cannot enter the stored format, e.g. after an authorization in the browser. */
  readonly kept?: z.ZodType<Credential>
  /** Without a slash at the end. The first one is the base of the API. Empty: the operator has not set it. */
  addresses(credential: Credential, settings: IntegrationSettings): readonly string[]
  /** Says which setting is missing if there is no address. */
  readonly missingAddress?: string
  /** Is absent if no setting has the address. */
  readonly addressSetting?: string
  /** The vendor's, if any, and the operator's. Compared as a whole: another path is another address. */
  ownAddresses(credential: Credential, settings: IntegrationSettings): readonly string[]
  /** Is absent if the credential itself is sent with each request. */
  readonly grant?: GrantDeclaration<Credential>
  /** With a `grant`, `accessToken` is the token from the exchange. */
  headers(credential: Credential, accessToken?: string): Readonly<Record<string, string>>
  /** With a harmless call to the service. */
  check(credential: Credential, ask: Ask): Promise<Checked>
  /** Besides those that every service has. */
  readonly errors: ServiceErrors
}

/** An address, and the path of the field of the credential that leads to it. */
export interface NamedAddress {
  readonly path: string
  readonly address: string
}

export interface Destination {
  /** In lower case and punycode, with the port if it is not the default of the scheme. */
  readonly host: string
  /** Every address that gets the credential or a call is the vendor's or the operator's. */
  readonly isOwn: boolean
  /** The operator must have named the host of each of them. */
  readonly foreign: readonly NamedAddress[]
}

const plain = (address: string): string => new URL(address).href.replace(/\/+$/, '')

/** Null if the operator has not set the address. */
export function destinationOf<Credential>(
  declaration: IntegrationDeclaration<Credential>,
  credential: Credential,
  settings: IntegrationSettings,
): Destination | null {
  const addresses = declaration.addresses(credential, settings)
  const [base] = addresses
  if (base === undefined) return null
  const own = new Set(declaration.ownAddresses(credential, settings).map(plain))
  const endpoint = declaration.grant?.namedEndpoint(credential) ?? null
  const named: readonly NamedAddress[] = [
    ...(endpoint === null ? [] : [endpoint]),
    ...addresses.map((address) => ({ path: 'base_url', address })),
  ]
  const foreign = named.filter(({ address }) => !own.has(plain(address)))
  return { host: new URL(base).host, isOwn: foreign.length === 0, foreign }
}

export interface GrantDeclaration<Credential> {
  of(credential: Credential, settings: IntegrationSettings): Grant
  /** With the new refresh token that the server gave in exchange for the old one. */
  renewed(credential: Credential, refreshToken: string): Credential
  /** A token endpoint, and the path of its field. Null if the credential names no token endpoint. */
  namedEndpoint(credential: Credential): NamedAddress | null
  /** The smallest set with which the tool works. */
  scopesOf(tool: string): readonly string[]
  /** A wide scope includes narrower ones. Example: Google's `drive` includes `drive.readonly`. */
  missingScopes(tool: string, granted: readonly string[]): readonly string[]
  /** In the browser. Null if the operator has not set this up. */
  authorization(settings: IntegrationSettings): Authorization | null
  /** Says which settings are missing. */
  readonly missingAuthorization: string
  authorized(refreshToken: string, settings: IntegrationSettings): Credential
}

export function defineIntegration<Credential>(
  declaration: IntegrationDeclaration<Credential>,
): IntegrationDeclaration<Credential> {
  return declaration
}

/** Sent in a header, so it has no spaces and no line breaks. */
export const secret = z
  .string()
  .min(1)
  .max(8192)
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces: copy it again')
  .meta({ writeOnly: true })

export const baseUrl = z
  .string()
  .max(2048)
  .transform((text, context) => {
    const url = URL.canParse(text) ? new URL(text) : null
    const isPlain =
      url !== null &&
      (url.protocol === 'https:' || url.protocol === 'http:') &&
      url.username + url.password + url.search + url.hash === ''
    if (isPlain) return url.href.replace(/\/+$/, '')
    context.addIssue({
      code: 'custom',
      message:
        'must be an https address without user, query and fragment, such as `https://git.acme.com/api/v3`',
    })
    return z.NEVER
  })

/** Cut to 200 characters. Null if there is no text. */
export function textIn(json: unknown, ...path: readonly string[]): string | null {
  let value = json
  for (const name of path) {
    if (typeof value !== 'object' || value === null) return null
    value = (value as Readonly<Record<string, unknown>>)[name]
  }
  return typeof value === 'string' && value !== '' ? value.slice(0, 200) : null
}

/** 2xx with JSON: the credential is valid. 401: the service refuses it. Other answers say nothing. */
export function byStatus({ status, json }: CheckAnswer, account: (json: unknown) => string | null): Checked {
  if (status === 401)
    return { kind: 'refused', why: 'it answered 401: the credential is wrong, has ended or was revoked' }
  if (status >= 200 && status < 300 && json !== undefined) return { kind: 'account', account: account(json) }
  return { kind: 'unclear', status }
}

const lacksTheCall: ReadonlySet<number> = new Set([404, 405, 501])

/** Some products lack the call and answer 404, 405 or 501. The credential then counts as valid. */
export function ifItHasTheCall(answer: CheckAnswer, account: (json: unknown) => string | null): Checked {
  if (answer.status === 403)
    return { kind: 'refused', why: 'it answered 403: the credential does not allow this call' }
  return lacksTheCall.has(answer.status)
    ? { kind: 'account', account: account(undefined) }
    : byStatus(answer, account)
}
