import { createLocalJWKSet, jwtVerify, type JSONWebKeySet, type JWTPayload } from 'jose'
import * as oauth from 'oauth4webapi'
import { OutgoingError, type Outgoing } from '../../shared/outgoing/outgoing.ts'

/* OpenID Connect with the provider of an organization: code flow with PKCE. Knows no database. */

export interface OidcClient {
  readonly issuer: string
  readonly clientId: string
}

/** The provider gave no usable answer. The message says what to change, or whom to ask, and repeats no secret. */
export class ProviderTrouble extends Error {
  override readonly name = 'ProviderTrouble'
  /** The same request may work later. */
  readonly isAway: boolean
  constructor(message: string, isAway = false) {
    super(message)
    this.isAway = isAway
  }
}

type Server = oauth.AuthorizationServer & Required<Pick<oauth.AuthorizationServer, Endpoint>>
type Endpoint = 'authorization_endpoint' | 'token_endpoint' | 'jwks_uri'

/** With asymmetric keys only: a text signed with the client's secret proves nothing about the provider. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']

/** Reads the description of the provider. Throws ProviderTrouble. */
export async function discover(outgoing: Outgoing, issuer: string): Promise<Server> {
  return answered(issuer, async () => {
    const url = new URL(issuer)
    const response = await oauth.discoveryRequest(url, optionsFor(outgoing, issuer))
    if (response.status >= 500) throw new ProviderTrouble(`it answered with status ${response.status}`, true)
    if (response.status !== 200)
      throw new ProviderTrouble(
        `it has no description at \`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration\`: check \`issuer\``,
      )
    const server = await oauth.processDiscoveryResponse(url, response)
    const missing = (['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const).find(
      (name) => server[name] === undefined || outgoing.refusalOf(server[name]) !== null,
    )
    if (missing !== undefined) throw new ProviderTrouble(`its description has no usable \`${missing}\``)
    if (server.code_challenge_methods_supported?.includes('S256') === false)
      throw new ProviderTrouble('it does not support PKCE with S256')
    return server as Server
  })
}

export async function authorizationUrl(
  server: Server,
  { clientId }: OidcClient,
  sent: {
    readonly state: string
    readonly nonce: string
    readonly verifier: string
    readonly redirectUri: string
  },
  hint: string | null,
): Promise<string> {
  const url = new URL(server.authorization_endpoint)
  const groups = server.scopes_supported?.includes('groups') === true ? ['groups'] : []
  const all = {
    client_id: clientId,
    response_type: 'code',
    redirect_uri: sent.redirectUri,
    scope: ['openid', 'email', 'profile', ...groups].join(' '),
    state: sent.state,
    nonce: sent.nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(sent.verifier),
    code_challenge_method: 'S256',
    ...(hint === null ? {} : { login_hint: hint }),
  }
  for (const [name, value] of Object.entries(all)) url.searchParams.set(name, value)
  return url.href
}

export type Claims = Readonly<Record<string, unknown>> & { readonly sub: string }

/**
 * Exchanges the code, and returns the claims of the person: those of the ID token, and what only the user info has.
 * Throws ProviderTrouble, and SignInDenied if the provider or the person refused.
 */
export async function claimsOf(
  outgoing: Outgoing,
  { issuer, clientId, secret }: OidcClient & { readonly secret: string },
  given: {
    readonly answer: URLSearchParams
    readonly state: string
    readonly nonce: string
    readonly verifier: string
    readonly redirectUri: string
  },
): Promise<Claims> {
  const server = await discover(outgoing, issuer)
  return answered(issuer, async () => {
    const client: oauth.Client = { client_id: clientId }
    const checked = oauth.validateAuthResponse(server, client, given.answer, given.state)
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      authenticationOf(server, secret),
      checked,
      given.redirectUri,
      given.verifier,
      optionsFor(outgoing, server.token_endpoint),
    )
    if (response.status >= 500) throw new ProviderTrouble(`it answered with status ${response.status}`, true)
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, {
      expectedNonce: given.nonce,
      requireIdToken: true,
    })
    const claims = await verified(server, clientId, await keysOf(outgoing, server), tokens.id_token as string)
    const { sub } = claims
    if (typeof sub !== 'string') throw new ProviderTrouble('its ID token names nobody')
    return { ...(await userInfo(outgoing, server, client, tokens.access_token, sub)), ...claims, sub }
  })
}

function authenticationOf(server: Server, secret: string): oauth.ClientAuth {
  const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
  return methods.includes('client_secret_basic')
    ? oauth.ClientSecretBasic(secret)
    : oauth.ClientSecretPost(secret)
}

/** Many providers put the address and the groups only here. Empty if there is no such endpoint. */
async function userInfo(
  outgoing: Outgoing,
  server: Server,
  client: oauth.Client,
  accessToken: string,
  subject: string,
): Promise<Readonly<Record<string, unknown>>> {
  const { userinfo_endpoint: endpoint } = server
  if (endpoint === undefined) return {}
  const options = optionsFor(outgoing, endpoint)
  const response = await oauth.userInfoRequest(server, client, accessToken, options)
  return oauth.processUserInfoResponse(server, client, subject, response)
}

type Keys = ReturnType<typeof createLocalJWKSet>

/** Throws ProviderTrouble. */
async function keysOf(outgoing: Outgoing, server: Server): Promise<Keys> {
  const options = optionsFor(outgoing, server.jwks_uri)
  const response = await options[oauth.customFetch](server.jwks_uri, {})
  if (response.status !== 200) throw new ProviderTrouble('its keys (`jwks_uri`) cannot be read', true)
  return createLocalJWKSet((await response.json()) as JSONWebKeySet)
}

/** Checks signature, issuer, audience and times of a token that the provider signed. */
async function verified(server: Server, clientId: string, keys: Keys, token: string): Promise<JWTPayload> {
  const { payload } = await jwtVerify(token, keys, {
    issuer: server.issuer,
    audience: clientId,
    algorithms,
    clockTolerance: 30,
    requiredClaims: ['iat', 'exp'],
  })
  return payload
}

interface Read {
  readonly server: Server
  readonly keys: Keys
  readonly until: number
}
const lately = new WeakMap<Outgoing, Map<string, Read>>()
const kept = { milliseconds: 60_000, providers: 200 } as const

/** Anybody can send logout tokens, so these cause a request to the provider only once a minute. Throws ProviderTrouble. */
async function readLately(outgoing: Outgoing, issuer: string): Promise<Read> {
  const all = lately.get(outgoing) ?? new Map<string, Read>()
  lately.set(outgoing, all)
  const found = all.get(issuer)
  if (found !== undefined && found.until > Date.now()) return found
  const server = await discover(outgoing, issuer)
  const keys = await answered(issuer, () => keysOf(outgoing, server))
  const read = { server, keys, until: Date.now() + kept.milliseconds }
  all.delete(issuer)
  all.set(issuer, read)
  const [oldest] = all.keys()
  if (all.size > kept.providers && oldest !== undefined) all.delete(oldest)
  return read
}

const logoutEvent = 'http://schemas.openid.net/event/backchannel-logout'

/** What a logout token of the provider ends (OpenID Connect Back-Channel Logout 1.0). Throws ProviderTrouble. */
export async function endedBy(
  outgoing: Outgoing,
  { issuer, clientId }: OidcClient,
  token: string,
): Promise<{ readonly subject: string | null; readonly session: string | null }> {
  const { server, keys } = await readLately(outgoing, issuer)
  return answered(issuer, async () => {
    const { sub, nonce, ...claims } = await verified(server, clientId, keys, token)
    const session = typeof claims['sid'] === 'string' ? claims['sid'] : null
    const subject = sub ?? null
    const isLogout = Object.hasOwn(Object(claims['events']), logoutEvent) && nonce === undefined
    if (!isLogout || (session === null && subject === null))
      throw new ProviderTrouble('the token does not end a session')
    return { subject, session }
  })
}

function optionsFor(outgoing: Outgoing, address: string) {
  const fetch = outgoing.fetchWithin({ addresses: [address], milliseconds: 10_000, bytes: 256 * 1024 })
  return {
    [oauth.customFetch]: (url: string, init: object) => fetch(url, init),
    [oauth.allowInsecureRequests]: address.startsWith('http:'),
  }
}

/** Gives every error of the libraries a sentence of ours. */
async function answered<T>(issuer: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof SignInDenied) throw error
    if (error instanceof oauth.AuthorizationResponseError) throw new SignInDenied(wordOf(error.error))
    const { host } = new URL(issuer)
    if (error instanceof ProviderTrouble)
      throw new ProviderTrouble(`\`${host}\` cannot sign anybody in: ${error.message}`, error.isAway)
    throw troubleOf(host, error)
  }
}

function troubleOf(host: string, error: unknown): ProviderTrouble {
  if (error instanceof OutgoingError) {
    const code = certificateCode(error)
    return code === null
      ? new ProviderTrouble(error.message, true)
      : new ProviderTrouble(
          `the certificate of \`${host}\` is not valid (${code}): ask whoever runs the provider to renew it`,
          true,
        )
  }
  if (error instanceof oauth.ResponseBodyError || error instanceof oauth.WWWAuthenticateChallengeError) {
    const word = error instanceof oauth.ResponseBodyError ? wordOf(error.error) : 'invalid_client'
    return new ProviderTrouble(`\`${host}\` refuses (${word}): check client and secret`)
  }
  const { code: known } = Object(error) as { code?: unknown }
  const code = wordOf(typeof known === 'string' ? known : '')
  return new ProviderTrouble(`the answer of \`${host}\` is not valid (${code}), and signs nobody in`)
}

/** Of Node’s TLS, such as `CERT_HAS_EXPIRED`. */
function certificateCode(error: unknown): string | null {
  for (let cause = error, depth = 0; depth < 10 && cause instanceof Error; depth += 1, cause = cause.cause) {
    const { code } = cause as { code?: unknown }
    if (typeof code === 'string' && /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ALTNAME/.test(code)) return code
  }
  return null
}

/** Any other text may repeat a secret. */
const wordOf = (code: string): string => (/^[A-Za-z_]{1,60}$/.test(code) ? code : 'an unknown error')

/** The provider or the person refused. `code` is the provider’s, such as `access_denied`. */
export class SignInDenied extends Error {
  override readonly name = 'SignInDenied'
  readonly code: string
  constructor(code: string) {
    super(`the sign-in was refused: ${code}`)
    this.code = code
  }
}
