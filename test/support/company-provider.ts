import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT, type JWTPayload } from 'jose'
import { Provider } from 'oidc-provider'
import { browse } from './authorization-server.ts'

/* Providers with which a company signs its people in. */

export interface CompanyProvider {
  readonly url: string
  readonly client: { readonly id: string; readonly secret: string }
  /** The claims of people, by subject. */
  readonly people: Map<string, Record<string, unknown>>
  /** Who sits at the browser of `signIn`. */
  subject: string
  /** Opens the address as the browser of `subject` does, and agrees. Returns where it is sent back to. */
  signIn(address: string): Promise<URL>
  /** The person signs out at the provider, which tells its clients. */
  signOut(): Promise<void>
  close(): Promise<void>
}

/** A real one (`oidc-provider`). */
export async function startCompanyProvider(redirectUri: string, logoutUri: string): Promise<CompanyProvider> {
  const http = createServer()
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const client = { id: 'countersign', secret: 'the-secret-of-the-company-77ab' }
  const provider = new Provider(url, {
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        redirect_uris: [redirectUri],
        response_types: ['code'],
        grant_types: ['authorization_code'],
        backchannel_logout_session_required: true,
        backchannel_logout_uri: logoutUri,
      },
    ],
    claims: {
      openid: ['sub'],
      email: ['email', 'email_verified'],
      profile: ['name'],
      groups: ['groups'],
    },
    scopes: ['openid', 'email', 'profile', 'groups'],
    features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true } },
    pkce: { required: () => true },
    // Its own refuses this machine.
    fetch(address, options = {}) {
      const { method = 'GET', headers = {}, body = null } = options
      return fetch(address, { method, headers, body })
    },
    renderError(context, { error, error_description: description }) {
      context.body = `${error}: ${description}`
    },
    cookies: { keys: ['only for tests'] },
    findAccount: (_, accountId) => ({
      accountId,
      claims: () => ({ sub: accountId, ...server.people.get(accountId) }),
    }),
  })
  const answer = provider.callback()
  http.on('request', (request, response) => {
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    if (path.startsWith('/interaction/')) void agree(request, response)
    else void answer(request, response)
  })
  type Handled = Parameters<typeof answer>
  const agree = async (request: Handled[0], response: Handled[1]): Promise<void> => {
    const { prompt, params } = await provider.interactionDetails(request, response)
    const { subject } = server
    if (prompt.name === 'login')
      return provider.interactionFinished(request, response, { login: { accountId: subject } })
    const grant = new provider.Grant({ accountId: subject, clientId: String(params['client_id']) })
    grant.addOIDCScope(String(params['scope']))
    return provider.interactionFinished(
      request,
      response,
      { consent: { grantId: await grant.save() } },
      { mergeWithLastSubmission: true },
    )
  }
  let cookies = new Map<string, string>()
  const server: CompanyProvider = {
    url,
    client,
    people: new Map(),
    subject: 'nobody',
    signIn: (address) => browse(url, address, (cookies = new Map())),
    async signOut() {
      const cookie = () => [...cookies].map((pair) => pair.join('=')).join('; ')
      const page = await fetch(`${url}/session/end?client_id=${client.id}`, { headers: { cookie: cookie() } })
      const xsrf = /name="xsrf" value="([^"]+)"/.exec(await page.text())?.[1] ?? ''
      for (const set of page.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
        cookies.set(name, value)
      }
      const done = await fetch(`${url}/session/end/confirm`, {
        method: 'POST',
        redirect: 'manual',
        headers: { cookie: cookie(), 'content-type': 'application/x-www-form-urlencoded' },
        body: new URLSearchParams({ xsrf, logout: 'yes' }),
      })
      if (done.status >= 400) throw new Error(`not signed out: ${done.status} ${await done.text()}`)
    },
    close: () => closed(http),
  }
  return server
}

export interface LyingProvider {
  readonly url: string
  /** The claims of the next ID token, over the honest ones. `undefined` leaves a claim out. */
  claims: Record<string, unknown>
  /** The secrets that clients sent for codes. */
  secrets: string[]
  /** Whether its answers name it (`iss`). */
  sendsIssuer: boolean
  /** How often somebody has asked for its keys. */
  keysRead: number
  /** How the next ID token is signed: with another key, or with the client’s secret. */
  signedWith: 'own' | 'other' | 'secret'
  /** Signs a logout token with these claims over the honest ones. */
  logoutToken(claims: JWTPayload): Promise<string>
  /** What the browser brings back for an address of this provider. */
  answerTo(address: string): URL
  close(): Promise<void>
}

/** One that answers every code with an ID token that a test spoils. */
export async function startLyingProvider(
  client: CompanyProvider['client'],
  honest: Record<string, unknown>,
): Promise<LyingProvider> {
  const [own, other] = [await generateKeyPair('RS256'), await generateKeyPair('RS256')]
  const jwk = { ...(await exportJWK(own.publicKey)), kid: 'own', alg: 'RS256', use: 'sig' }
  const nonces = new Map<string, string>()
  const http = createServer((request, response) => {
    const path = (request.url ?? '').split('?', 1)[0]
    const send = (body: unknown): void => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(body))
    }
    if (path === '/.well-known/openid-configuration')
      return send({
        issuer: url,
        authorization_endpoint: `${url}/auth`,
        token_endpoint: `${url}/token`,
        jwks_uri: `${url}/jwks`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256', 'HS256'],
        authorization_response_iss_parameter_supported: server.sendsIssuer,
      })
    if (path === '/jwks') {
      server.keysRead += 1
      return send({ keys: [jwk] })
    }
    const [, sent = ''] = Buffer.from((request.headers.authorization ?? '').slice(6), 'base64')
      .toString()
      .split(':')
    if (path === '/token') server.secrets.push(decodeURIComponent(sent))
    let body = ''
    request.on('data', (chunk) => (body += String(chunk)))
    request.on('end', () => {
      const code = new URLSearchParams(body).get('code') ?? ''
      void idToken(nonces.get(code) ?? '').then((token) =>
        send({ access_token: 'a', token_type: 'Bearer', expires_in: 60, id_token: token }),
      )
    })
    return undefined
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const now = (): number => Math.floor(Date.now() / 1_000)
  const sign = (claims: Record<string, unknown>): Promise<string> => {
    const { signedWith } = server
    const token = new SignJWT(claims).setProtectedHeader({
      alg: signedWith === 'secret' ? 'HS256' : 'RS256',
      kid: 'own',
    })
    return token.sign(
      signedWith === 'secret'
        ? new TextEncoder().encode(client.secret)
        : (signedWith === 'own' ? own : other).privateKey,
    )
  }
  const times = () => ({ iss: url, aud: client.id, iat: now(), exp: now() + 60 })
  const idToken = (nonce: string) => sign({ ...times(), ...honest, nonce, ...server.claims })
  const server: LyingProvider = {
    url,
    claims: {},
    secrets: [],
    sendsIssuer: true,
    keysRead: 0,
    signedWith: 'own',
    logoutToken: (claims) => sign({ ...times(), jti: 'j', ...claims }),
    answerTo(address) {
      const asked = new URL(address).searchParams
      const code = `code-${nonces.size}`
      nonces.set(code, asked.get('nonce') ?? '')
      const back = new URL(asked.get('redirect_uri') ?? '')
      const answer = { code, state: asked.get('state') ?? '', iss: url }
      for (const [name, value] of Object.entries(answer)) back.searchParams.set(name, value)
      return back
    },
    close: () => closed(http),
  }
  return server
}

function closed(http: ReturnType<typeof createServer>): Promise<void> {
  http.closeAllConnections()
  return new Promise((resolve) => void http.close(() => resolve()))
}
