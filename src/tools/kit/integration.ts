import { z } from 'zod'
import type { ServiceErrors } from './errors.ts'

/** An authorization server of OAuth. */
export interface TokenServer {
  readonly issuer: string
  readonly authorizationEndpoint: string
  readonly tokenEndpoint: string
  readonly revocationEndpoint: string
  /**
   * True if the server may publish a list of its endpoints. An endpoint in this list replaces the endpoint above. It
   * must have the same origin as the issuer.
   */
  readonly isDescribed: boolean
}

/** A client that is registered at an authorization server. */
export interface OAuthClient {
  readonly id: string
  readonly secret: string
}

/**
 * How a credential is exchanged for an access token:
 * - `refresh_token`: the service sends a refresh token. The server may take each refresh token only once, so all
 *   processes share one stored access token.
 * - `service_account`: the service sends a signed statement. Each process can sign a new statement at any time.
 */
export type Grant =
  | {
      readonly kind: 'refresh_token'
      readonly server: TokenServer
      /** Is null if the operator has removed or replaced the client. */
      readonly client: OAuthClient | null
      readonly refreshToken: string
      /**
       * True if the refresh token came from an authorization in the browser for this connection. When such a connection
       * is revoked, Countersign also revokes the token, unless another connection has the same account.
       */
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

/** The parameters with which a person's browser goes to an authorization server. */
export interface Authorization {
  readonly server: TokenServer
  readonly client: OAuthClient
  readonly scopes: readonly string[]
  /** Parameters that only this server needs. */
  readonly parameters: Readonly<Record<string, string>>
}

/** Settings of the operator. */
export interface IntegrationSettings {
  /** The value of `TRACKER_BASE_URL`. Is null if it is not set. */
  readonly trackerBaseUrl: string | null
  readonly google: {
    /** The OAuth client of this installation at Google. Is null if it is not set. */
    readonly client: { readonly id: string; readonly secret: string } | null
    /** The value of `GOOGLE_BASE_URL`. Is null if Google's own addresses are used. */
    readonly baseUrl: string | null
  }
}

/**
 * One request of a check. The request is sent with the credential's headers to the base address of the integration's
 * API.
 */
export interface CheckRequest {
  readonly method: 'GET' | 'POST'
  /** Begins with a slash. */
  readonly path: string
}

export interface CheckAnswer {
  readonly status: number
  /** The parsed body. Is undefined if the body is not JSON. */
  readonly json: unknown
}

/** Sends a request of a check. Throws if no answer came. */
export type Ask = (request: CheckRequest) => Promise<CheckAnswer>

/**
 * The result of a check:
 * - `account`: the service knows the credential. `account` is null if the service does not name the credential's owner.
 * - `refused`: the service does not accept the credential. `why` is one clause for the person who gave the credential.
 * - `unclear`: the answer says nothing about the credential. `isBusy` is true if the check may succeed later, although
 *   the status does not say so.
 */
export type Checked =
  | { readonly kind: 'account'; readonly account: string | null }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'unclear'; readonly status: number; readonly isBusy?: boolean }

/** Describes an integration: its credential, the addresses that may get the credential, and its check. */
export interface IntegrationDeclaration<Credential = unknown> {
  readonly name: string
  /** The name as people write it. */
  readonly title: string
  readonly credential: z.ZodType<Credential>
  /**
   * The schema of the stored credential. It is needed if a stored credential can have a format that people cannot
   * enter. Example: a credential that an authorization in the browser has made. The default is `credential`.
   */
  readonly kept?: z.ZodType<Credential>
  /**
   * Returns the addresses to which a credential may be sent, without a slash at the end. The first address is the base
   * of the API. An empty list means that the operator has not set the address.
   */
  addresses(credential: Credential, settings: IntegrationSettings): readonly string[]
  /** Says which setting is missing if there is no address. */
  readonly missingAddress?: string
  /** The operator's setting that has the address of the service. Is absent if no setting has the address. */
  readonly addressSetting?: string
  /**
   * Returns the addresses of the service itself for this credential: the vendor's, and those in the operator's settings.
   * Compared as a whole: another path on the same host is another address. Is empty for software that has no vendor's
   * address. See `destinationOf`.
   */
  ownAddresses(credential: Credential, settings: IntegrationSettings): readonly string[]
  /**
   * How a credential is exchanged for an access token. Is absent if the credential itself is sent with each request.
   */
  readonly grant?: GrantDeclaration<Credential>
  /**
   * Returns the headers of a request that is made with the credential. If the integration has a `grant`, `accessToken`
   * is the token from the exchange.
   */
  headers(credential: Credential, accessToken?: string): Readonly<Record<string, string>>
  /** Checks the credential with a harmless call to the service. */
  check(credential: Credential, ask: Ask): Promise<Checked>
  /** The error codes of calls through a connection, besides those that every service has. */
  readonly errors: ServiceErrors
}

/** An address, and the path of the field of the credential that leads to it. */
export interface NamedAddress {
  readonly path: string
  readonly address: string
}

/** Where a connection sends its calls. */
export interface Destination {
  /**
   * The host of the API in lower case, with the port if it is not the default of the scheme. The letters of a name are
   * ASCII (punycode).
   */
  readonly host: string
  /**
   * True if every address that gets the credential or a call is the vendor's, or in a setting of the operator. Only
   * then is `foreign` empty.
   */
  readonly isOwn: boolean
  /** The other addresses. The operator must have named the host of each of them. */
  readonly foreign: readonly NamedAddress[]
}

const plain = (address: string): string => new URL(address).href.replace(/\/+$/, '')

/** Returns where calls with this credential go. Returns null if the operator has not set the address. */
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
  /** Returns the same credential with the new refresh token that the server gave in exchange for the old one. */
  renewed(credential: Credential, refreshToken: string): Credential
  /** Returns a token endpoint that the credential names, and the path of its field. Returns null if it names none. */
  namedEndpoint(credential: Credential): NamedAddress | null
  /** Returns the smallest set of scopes with which the tool works. */
  scopesOf(tool: string): readonly string[]
  /**
   * Returns the scopes that the tool needs and that `granted` does not include. A wide scope in `granted` includes
   * narrower scopes. Example: Google's `drive` includes `drive.readonly`.
   */
  missingScopes(tool: string, granted: readonly string[]): readonly string[]
  /** Returns how a person authorizes Countersign in the browser. Returns null if the operator has not set this up. */
  authorization(settings: IntegrationSettings): Authorization | null
  /** Says which settings are missing if there is no authorization. */
  readonly missingAuthorization: string
  /** Makes the credential from the refresh token of an authorization. */
  authorized(refreshToken: string, settings: IntegrationSettings): Credential
}

export function defineIntegration<Credential>(
  declaration: IntegrationDeclaration<Credential>,
): IntegrationDeclaration<Credential> {
  return declaration
}

/** A secret that is sent in a header. It has no spaces and no line breaks. */
export const secret = z
  .string()
  .min(1)
  .max(8192)
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces: copy it again')

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

/** Returns the text at `path` in an answer, cut to 200 characters. Returns null if there is no text. */
export function textIn(json: unknown, ...path: readonly string[]): string | null {
  let value = json
  for (const name of path) {
    if (typeof value !== 'object' || value === null) return null
    value = (value as Readonly<Record<string, unknown>>)[name]
  }
  return typeof value === 'string' && value !== '' ? value.slice(0, 200) : null
}

/**
 * Reads the answer of a service whose status shows whether a credential is valid. An answer of 2xx with JSON means that
 * the credential is valid. An answer of 401 means that the service refuses the credential. Other answers say nothing.
 */
export function byStatus({ status, json }: CheckAnswer, account: (json: unknown) => string | null): Checked {
  if (status === 401)
    return { kind: 'refused', why: 'it answered 401: the credential is wrong, has ended or was revoked' }
  if (status >= 200 && status < 300 && json !== undefined) return { kind: 'account', account: account(json) }
  return { kind: 'unclear', status }
}

const lacksTheCall: ReadonlySet<number> = new Set([404, 405, 501])

/**
 * Reads the answer of an API that several products offer, for example products for language models. Some of these
 * products lack the call that checks a credential, and answer 404, 405 or 501. After such an answer, the credential
 * counts as valid.
 */
export function ifItHasTheCall(answer: CheckAnswer, account: (json: unknown) => string | null): Checked {
  if (answer.status === 403)
    return { kind: 'refused', why: 'it answered 403: the credential does not allow this call' }
  return lacksTheCall.has(answer.status)
    ? { kind: 'account', account: account(undefined) }
    : byStatus(answer, account)
}
