import { afterAll, beforeAll, beforeEach, expect } from '@jest/globals'
import { startAuthorizationServer, type AuthorizationServer } from '../../support/authorization-server.ts'
import { Browser } from '../browser.ts'
import { startTestServer, type Answer, type TestServer } from '../server.ts'

/* A server whose people can connect Google in the browser, and the authorization server that plays Google. */

export const publicUrl = 'http://127.0.0.1:9'
export const callback = '/api/v1/connections/callback/google'

type Name = 'owner' | 'admin' | 'member' | 'viewer'

export interface Authorizing {
  readonly server: TestServer
  readonly google: AuthorizationServer
  keyOf(name: Name): string
  /** Begins an authorization with this key. */
  begin(key: string, more?: object, headers?: Record<string, string>): Promise<Answer>
  /** The connections that the owner of the key sees. */
  list(key: string): Promise<Answer['body']>
  /** A browser in which this person is signed in. */
  signedIn(name: Name): Promise<Browser>
  /**
   * Begins an authorization as `name` and agrees at the authorization server. Returns the address to which the browser
   * is redirected, without its host.
   */
  agreed(name?: Name, more?: object): Promise<string>
}

function authorizingAt(server: TestServer, google: AuthorizationServer): Authorizing {
  const browsers = new Map<Name, Browser>()
  const keyOf: Authorizing['keyOf'] = (name) => server.identities.users[name].api_key
  const begin: Authorizing['begin'] = (key, more = {}, headers) =>
    server.call(key, 'POST', '/tools/docs_read/connect', { scope: 'personal', ...more }, headers)
  return {
    server,
    google,
    keyOf,
    begin,
    list: async (key) => (await server.call(key, 'GET', '/connections')).body.data,
    async signedIn(name) {
      const known = browsers.get(name)
      if (known !== undefined) return known
      const browser = new Browser(server)
      const { email, password } = server.identities.users[name]
      expect((await browser.signIn(email, password)).status).toBe(200)
      browsers.set(name, browser)
      return browser
    },
    async agreed(name = 'member', more = {}) {
      const { status, body } = await begin(keyOf(name), more)
      expect(status).toBe(202)
      const { pathname, search } = await google.authorize(body.authorization_url)
      return pathname + search
    },
  }
}

/** Starts both servers for the tests of a file. Each test begins without connections. */
export function useAuthorizing(use: (started: Authorizing) => void): void {
  let server: TestServer | undefined
  let google: AuthorizationServer | undefined
  beforeAll(async () => {
    google = await startAuthorizationServer([`${publicUrl}${callback}`])
    server = await startTestServer({
      env: {
        PUBLIC_URL: publicUrl,
        GOOGLE_CLIENT_ID: google.client.id,
        GOOGLE_CLIENT_SECRET: google.client.secret,
        GOOGLE_BASE_URL: google.url,
      },
    })
    use(authorizingAt(server, google))
  })
  beforeEach(async () => {
    await server?.context.db.deleteFrom('connections').execute()
    await server?.context.db.deleteFrom('connection_attempts').execute()
    if (google === undefined) return
    google.requests.length = 0
    google.onToken = async () => 'answered'
  })
  afterAll(() => Promise.all([server?.close(), google?.close()]))
}
