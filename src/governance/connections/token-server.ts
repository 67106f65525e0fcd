import { importPKCS8, SignJWT } from 'jose'
import * as oauth from 'oauth4webapi'
import type { Authorization, Grant, OAuthClient, TokenServer } from '../../tools/kit/integration.ts'
import { OutgoingError, type Fetch, type Outgoing } from '../../shared/outgoing/outgoing.ts'
import { retryAfterOf } from '../../shared/outgoing/retry-after.ts'

export interface Tokens {
  readonly accessToken: string
  readonly expiresInSeconds: number
  readonly refreshToken: string | null
  /** null if the server names none. */
  readonly scopes: readonly string[] | null
}
/** So many rights are stored from one answer. */
const mostScopes = 200
/** In seconds, if the answer names no lifetime. */
const shortLife = 300
/** Google allows an hour, but each statement is used at once. */
const statementLife = '5m'

type RefreshGrant = Extract<Grant, { kind: 'refresh_token' }>
/** Secrets may be sent only to `endpoints`. `as` describes the server for the OAuth library. */
export interface KnownServer {
  readonly as: oauth.AuthorizationServer
  readonly endpoints: Pick<TokenServer, 'authorizationEndpoint' | 'tokenEndpoint' | 'revocationEndpoint'>
}

const knownAs = (server: TokenServer): KnownServer => ({
  as: {
    issuer: server.issuer,
    authorization_endpoint: server.authorizationEndpoint,
    token_endpoint: server.tokenEndpoint,
    revocation_endpoint: server.revocationEndpoint,
  },
  endpoints: server,
})

/** Throws GrantRefused, TokenServerAway. */
export async function findServer(outgoing: Outgoing, server: TokenServer): Promise<KnownServer> {
  if (!server.isDescribed) return knownAs(server)
  return answered(async () => {
    const issuer = new URL(server.issuer)
    const response = await oauth.discoveryRequest(issuer, optionsFor(outgoing, server.issuer))
    if (response.status === 404) return knownAs(server)
    requireServing(response)
    const described = await oauth.processDiscoveryResponse(issuer, response)
    const below = (address: string | undefined, otherwise: string): string => {
      if (address === undefined) return otherwise
      if (URL.canParse(address) && new URL(address).origin === issuer.origin) return address
      throw new GrantRefused('its description names an address elsewhere')
    }
    const endpoints = {
      authorizationEndpoint: below(described.authorization_endpoint, server.authorizationEndpoint),
      tokenEndpoint: below(described.token_endpoint, server.tokenEndpoint),
      revocationEndpoint: below(described.revocation_endpoint, server.revocationEndpoint),
    }
    return {
      as: {
        ...described,
        authorization_endpoint: endpoints.authorizationEndpoint,
        token_endpoint: endpoints.tokenEndpoint,
        revocation_endpoint: endpoints.revocationEndpoint,
      },
      endpoints,
    }
  })
}

/** Even if the answer is lost, the refresh token may be used up. Throws GrantRefused, TokenServerAway. */
export async function refreshTokens(
  outgoing: Outgoing,
  { server, client, refreshToken }: RefreshGrant & { readonly client: OAuthClient },
): Promise<Tokens> {
  const { as, endpoints } = await findServer(outgoing, server)
  return answered(async () => {
    const response = await oauth.refreshTokenGrantRequest(
      as,
      clientOf(client),
      oauth.ClientSecretPost(client.secret),
      refreshToken,
      optionsFor(outgoing, endpoints.tokenEndpoint),
    )
    requireServing(response)
    return tokensOf(await oauth.processRefreshTokenResponse(as, clientOf(client), response))
  })
}

/** Throws GrantRefused if the server does not support PKCE with S256. */
export async function authorizationUrl(
  { as, endpoints }: KnownServer,
  { client, scopes, parameters }: Authorization,
  { state, verifier, redirectUri }: { state: string; verifier: string; redirectUri: string },
): Promise<string> {
  if (as.code_challenge_methods_supported?.includes('S256') === false)
    throw new GrantRefused('it does not support PKCE with S256')
  const url = new URL(endpoints.authorizationEndpoint)
  const all = {
    client_id: client.id,
    response_type: 'code',
    redirect_uri: redirectUri,
    scope: scopes.join(' '),
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...parameters,
  }
  for (const [name, value] of Object.entries(all)) url.searchParams.set(name, value)
  return url.href
}

/** Checks `state`, `iss` and `error` too. Throws AuthorizationDenied, GrantRefused, TokenServerAway. */
export async function exchangeCode(
  outgoing: Outgoing,
  { server, client }: Authorization,
  given: {
    readonly answer: URLSearchParams
    readonly state: string
    readonly verifier: string
    readonly redirectUri: string
  },
): Promise<Tokens> {
  const { as, endpoints } = await findServer(outgoing, server)
  return answered(async () => {
    const checked = oauth.validateAuthResponse(as, clientOf(client), given.answer, given.state)
    const response = await oauth.authorizationCodeGrantRequest(
      as,
      clientOf(client),
      oauth.ClientSecretPost(client.secret),
      checked,
      given.redirectUri,
      given.verifier,
      optionsFor(outgoing, endpoints.tokenEndpoint),
    )
    requireServing(response)
    return tokensOf(await oauth.processAuthorizationCodeResponse(as, clientOf(client), response))
  })
}

/** Exchanges a statement that the account's key has signed (RFC 7523). Throws GrantRefused, TokenServerAway. */
export async function serviceAccountToken(
  outgoing: Outgoing,
  { tokenEndpoint, email, keyId, privateKey }: Extract<Grant, { kind: 'service_account' }>,
  scopes: readonly string[],
): Promise<Tokens> {
  const statement = await signed()
  return answered(async () => {
    const as = { issuer: new URL(tokenEndpoint).origin, token_endpoint: tokenEndpoint }
    const response = await oauth.genericTokenEndpointRequest(
      as,
      { client_id: email },
      // The signed statement already identifies the sender.
      () => {},
      'urn:ietf:params:oauth:grant-type:jwt-bearer',
      { assertion: statement },
      optionsFor(outgoing, tokenEndpoint),
    )
    requireServing(response)
    return tokensOf(await oauth.processGenericTokenEndpointResponse(as, { client_id: email }, response))
  })

  async function signed(): Promise<string> {
    try {
      return await new SignJWT({ scope: scopes.join(' ') })
        .setProtectedHeader({ alg: 'RS256', typ: 'JWT', ...(keyId === null ? {} : { kid: keyId }) })
        .setIssuer(email)
        .setAudience(tokenEndpoint)
        .setIssuedAt()
        .setExpirationTime(statementLife)
        .sign(await importPKCS8(privateKey.trim(), 'RS256'))
    } catch {
      // The caught error may repeat parts of the key.
      throw new GrantRefused('invalid_key')
    }
  }
}

/** Throws GrantRefused, TokenServerAway. */
export async function revokeToken(
  outgoing: Outgoing,
  { server, client, refreshToken }: RefreshGrant & { readonly client: OAuthClient },
): Promise<void> {
  const { as, endpoints } = await findServer(outgoing, server)
  await answered(async () => {
    const response = await oauth.revocationRequest(
      as,
      clientOf(client),
      oauth.ClientSecretPost(client.secret),
      refreshToken,
      optionsFor(outgoing, endpoints.revocationEndpoint),
    )
    requireServing(response)
    await oauth.processRevocationResponse(response)
  })
}

const clientOf = ({ id }: OAuthClient): oauth.Client => ({ client_id: id })

/** `Outgoing` decides whether the address may use `http:`. */
function optionsFor(outgoing: Outgoing, address: string) {
  const fetch: Fetch = outgoing.fetchWithin({
    addresses: [address],
    milliseconds: 10_000,
    bytes: 256 * 1024,
  })
  return {
    [oauth.customFetch]: (url: string, init: object) => fetch(url, init),
    [oauth.allowInsecureRequests]: address.startsWith('http:'),
  }
}

function tokensOf({ access_token, expires_in, refresh_token, scope }: oauth.TokenEndpointResponse): Tokens {
  return {
    accessToken: access_token,
    expiresInSeconds: Math.min(Math.max(expires_in ?? shortLife, 0), 24 * 3_600),
    refreshToken: refresh_token ?? null,
    scopes: scope === undefined ? null : scope.split(' ').slice(0, mostScopes),
  }
}

/** 429 and 5xx are no judgement of the request. */
function requireServing({ status, headers }: Response): void {
  if (status < 500 && status !== 429) return
  throw new TokenServerAway(`the authorization server answered with status ${status}`, retryAfterOf(headers))
}

async function answered<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof GrantRefused || error instanceof TokenServerAway) throw error
    if (error instanceof OutgoingError) throw new TokenServerAway(error.message)
    if (error instanceof oauth.WWWAuthenticateChallengeError) throw new GrantRefused('invalid_client')
    if (error instanceof oauth.AuthorizationResponseError) throw new AuthorizationDenied(wordOf(error.error))
    if (error instanceof oauth.ResponseBodyError) throw new GrantRefused(wordOf(error.error))
    if (error instanceof oauth.OperationProcessingError || error instanceof oauth.UnsupportedOperationError)
      throw new GrantRefused('its answer cannot be accepted')
    throw error
  }
}

/** Any other text may repeat a secret. */
const wordOf = (code: string): string => (/^[a-z_]{1,60}$/.test(code) ? code : 'an unknown error')

/** `code` is the server's, such as `invalid_grant`, or our text. Nothing else is kept: it may repeat secrets. */
export class GrantRefused extends Error {
  override readonly name = 'GrantRefused'
  readonly code: string
  constructor(code: string) {
    super(`the authorization server refuses: ${code}`)
    this.code = code
  }
}

/** The person, or the server, has refused an authorization in the browser. */
export class AuthorizationDenied extends Error {
  override readonly name = 'AuthorizationDenied'
  readonly code: string
  constructor(code: string) {
    super(`the authorization was refused: ${code}`)
    this.code = code
  }
}

/** No usable answer. The same request may work later. */
export class TokenServerAway extends Error {
  override readonly name = 'TokenServerAway'
  readonly retryAfterSeconds: number | null
  constructor(message: string, retryAfterSeconds: number | null = null) {
    super(message)
    this.retryAfterSeconds = retryAfterSeconds
  }
}

export class RightsMissing extends Error {
  override readonly name = 'RightsMissing'
  readonly scopes: readonly string[]
  constructor(scopes: readonly string[]) {
    super(`the authorization lacks the rights ${scopes.join(', ')}`)
    this.scopes = scopes
  }
}
