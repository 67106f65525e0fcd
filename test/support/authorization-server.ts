import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'
import { google } from '../../src/tools/google/connect.ts'
import { catalog } from '../../src/tools/index.ts'

/** A request to the authorization server, with the parameters of its body. */
export interface TokenRequest {
  readonly path: string
  readonly parameters: URLSearchParams
}

/**
 * A strict authorization server on this machine. It requires PKCE, compares redirect addresses exactly, and sends
 * `iss`. It accepts each code and each refresh token once. A second use ends the whole grant.
 */
export interface AuthorizationServer {
  readonly url: string
  readonly client: { readonly id: string; readonly secret: string }
  /** The requests for tokens and revocations, in the order of their arrival. */
  readonly requests: TokenRequest[]
  /**
   * This function runs before the server answers a token request. If it returns `lost`, the server carries out the
   * request, but its answer never arrives.
   */
  onToken: () => Promise<'answered' | 'lost'>
  /** The lifetime of an access token in seconds. */
  tokenSeconds: number
  /**
   * Opens an address as the browser of `ana@acme.example` does. Signs this person in and agrees to the request. Returns
   * the address of the last redirect.
   */
  authorize(address: string): Promise<URL>
  close(): Promise<void>
}

/** Hides the messages of the library on the console. They say that the settings of the library are for tests only. */
for (const level of ['info', 'warn'] as const) {
  const write = console[level].bind(console)
  console[level] = (...words: unknown[]) => {
    if (!String(words[0]).startsWith('oidc-provider ')) write(...words)
  }
}

export const account = 'ana@acme.example'

export async function startAuthorizationServer(
  redirectUris: readonly string[],
): Promise<AuthorizationServer> {
  const http = createServer()
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  const client = { id: 'countersign', secret: 'the-secret-of-the-client-4f1c' }
  const provider = new Provider(url, {
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        redirect_uris: [...redirectUris],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    routes: {
      authorization: '/o/oauth2/v2/auth',
      token: '/token',
      revocation: '/revoke',
      userinfo: '/oauth2/v2/userinfo',
    },
    claims: { openid: ['sub'], email: ['email'] },
    scopes: ['openid', ...googleScopes],
    features: { devInteractions: { enabled: false }, revocation: { enabled: true } },
    pkce: { required: () => true },
    rotateRefreshToken: true,
    issueRefreshToken: async () => true,
    ttl: {
      AccessToken: () => server.tokenSeconds,
      ...Object.fromEntries(
        ['AuthorizationCode', 'Grant', 'IdToken', 'Interaction', 'RefreshToken', 'Session'].map((name) => [
          name,
          600,
        ]),
      ),
    },
    renderError(context, { error, error_description: description }) {
      context.body = `${error}: ${description}`
    },
    cookies: { keys: ['only for tests'] },
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId, email: accountId }) }),
  })
  const answer = provider.callback()
  http.on('request', (request, response) => {
    const path = (request.url ?? '').split('?', 1)[0] ?? ''
    if (path.startsWith('/interaction/')) void agree(provider, request, response)
    else if (path !== '/token' && path !== '/revoke') void answer(request, response)
    else void record(path, request, response)
  })
  const record = async (path: string, request: Handler[0], response: Handler[1]): Promise<void> => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const parameters = new URLSearchParams(Buffer.concat(chunks).toString())
    server.requests.push({ path, parameters })
    // The provider cannot read the body again, so it gets the body in this field.
    Object.assign(request, { body: Object.fromEntries(parameters) })
    if (path === '/token' && (await server.onToken()) === 'lost')
      response.write = response.end = () => response.destroy() as never
    await answer(request, response)
  }
  const server: AuthorizationServer = {
    url,
    client,
    requests: [],
    onToken: async () => 'answered',
    tokenSeconds: 3_600,
    authorize: (address) => browse(url, address),
    close: () => {
      http.closeAllConnections()
      return new Promise((resolve) => void http.close(() => resolve()))
    },
  }
  return server
}

/** The scopes of all tools. A client gets each of these scopes that it asks for. */
const googleScopes = [...new Set(Object.keys(catalog).flatMap((tool) => google.grant?.scopesOf(tool) ?? []))]

type Handler = Parameters<ReturnType<Provider['callback']>>

/** Signs `account` in, and agrees to everything that the client asks for. */
async function agree(provider: Provider, request: Handler[0], response: Handler[1]): Promise<void> {
  const { prompt, params, grantId } = await provider.interactionDetails(request, response)
  if (prompt.name === 'login')
    return provider.interactionFinished(request, response, { login: { accountId: account } })
  const found = grantId === undefined ? undefined : await provider.Grant.find(grantId)
  const grant = found ?? new provider.Grant({ accountId: account, clientId: String(params['client_id']) })
  grant.addOIDCScope(String(params['scope']))
  const consent = { grantId: await grant.save() }
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true })
}

/**
 * Follows redirects until a redirect leads to another server. Returns the address of this last redirect. Sends the
 * cookies that the server has set.
 */
export async function browse(
  server: string,
  start: string,
  cookies = new Map<string, string>(),
): Promise<URL> {
  let url = new URL(start)
  for (let redirects = 0; redirects < 12; redirects += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const answer = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const set of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
      if (value === '') cookies.delete(name)
      else cookies.set(name, value)
    }
    const location = answer.headers.get('location')
    if (location === null) throw new Error(`${url.pathname}: ${answer.status} ${await answer.text()}`)
    url = new URL(location, url)
    if (url.origin !== server) return url
  }
  throw new Error('too many redirects')
}
