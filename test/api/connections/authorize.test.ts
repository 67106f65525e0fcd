import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { auditOf } from '../../governance/support.ts'
import {
  account,
  startAuthorizationServer,
  type AuthorizationServer,
} from '../../support/authorization-server.ts'
import { Browser } from '../browser.ts'
import { addOrganization, addPerson } from '../fixtures.ts'
import { startTestServer, type Answer, type TestServer } from '../server.ts'

const publicUrl = 'http://127.0.0.1:9'
const callback = '/api/v1/connections/callback/google'

let server: TestServer
let google: AuthorizationServer
beforeAll(async () => {
  google = await startAuthorizationServer([`${publicUrl}${callback}`])
  server = await startTestServer({ env: settings() })
})
beforeEach(async () => {
  await server.context.db.deleteFrom('connections').execute()
  await server.context.db.deleteFrom('connection_attempts').execute()
  google.requests.length = 0
  google.onToken = async () => 'answered'
})
afterAll(() => Promise.all([server?.close(), google?.close()]))

const settings = () => ({
  PUBLIC_URL: publicUrl,
  GOOGLE_CLIENT_ID: google.client.id,
  GOOGLE_CLIENT_SECRET: google.client.secret,
  GOOGLE_BASE_URL: google.url,
})

type Name = 'owner' | 'admin' | 'member' | 'viewer'
const keyOf = (name: Name): string => server.identities.users[name].api_key
const begin = (key: string, more: object = {}, headers?: Record<string, string>): Promise<Answer> =>
  server.call(key, 'POST', '/tools/docs_read/connect', { scope: 'personal', ...more }, headers)
const list = async (key: string) => (await server.call(key, 'GET', '/connections')).body.data
const browsers = new Map<Name, Browser>()
const signedIn = async (name: Name): Promise<Browser> => {
  const known = browsers.get(name)
  if (known !== undefined) return known
  const browser = new Browser(server)
  const { email, password } = server.identities.users[name]
  expect((await browser.signIn(email, password)).status).toBe(200)
  browsers.set(name, browser)
  return browser
}
/**
 * Begins an authorization as `name` and agrees at the authorization server. Returns the address to which the browser is
 * redirected, without its host.
 */
const agreed = async (name: Name = 'member', more: object = {}): Promise<string> => {
  const { status, body } = await begin(keyOf(name), more)
  expect(status).toBe(202)
  const { pathname, search } = await google.authorize(body.authorization_url)
  return pathname + search
}
const attempts = () => server.context.db.selectFrom('connection_attempts').selectAll().execute()
const changed = (path: string, name: string, value: string | null): string => {
  const url = new URL(path, publicUrl)
  if (value === null) url.searchParams.delete(name)
  else url.searchParams.set(name, value)
  return url.pathname + url.search
}

describe('an authorization in the browser', () => {
  test('connects the account for the person who began it', async () => {
    const { body } = await begin(keyOf('member'), { name: 'my documents' })
    const asked = new URL(body.authorization_url).searchParams
    expect(Object.fromEntries(asked)).toMatchObject({
      client_id: google.client.id,
      response_type: 'code',
      code_challenge_method: 'S256',
      redirect_uri: `${publicUrl}${callback}`,
      access_type: 'offline',
    })
    expect(asked.get('scope')).toContain('auth/documents.readonly')
    expect(Date.parse(body.expires_at) - Date.now()).toBeLessThanOrEqual(600_000)
    const back = await google.authorize(body.authorization_url)
    const page = await (await signedIn('member')).send('GET', back.pathname + back.search)
    expect([page.status, page.text]).toEqual([200, expect.stringContaining('Google is connected')])
    expect(await list(keyOf('member'))).toMatchObject([
      { integration: 'google', scope: 'personal', name: 'my documents', account, status: 'active' },
    ])
    expect(await list(keyOf('viewer'))).toEqual([])
    const exchanged = google.requests[0]?.parameters
    expect(exchanged?.get('code_verifier')).toHaveLength(43)
    expect(exchanged?.get('redirect_uri')).toBe(`${publicUrl}${callback}`)
  })

  test('for the organization needs an admin', async () => {
    const refused = await begin(keyOf('member'), { scope: 'organization' })
    expect(refused.body.error.code).toBe('insufficient_role')
    const back = await agreed('admin', { scope: 'organization' })
    expect((await (await signedIn('admin')).send('GET', back)).status).toBe(200)
    expect(await list(keyOf('viewer'))).toMatchObject([{ scope: 'organization', owner_id: null, account }])
  })

  test('keeps neither state nor verifier in the clear, and nothing of them in the audit log', async () => {
    const browser = await signedIn('member')
    const back = await agreed()
    const [attempt] = await attempts()
    const state = new URL(back, publicUrl).searchParams.get('state') ?? ''
    expect(JSON.stringify(attempt)).not.toContain(state)
    expect(attempt?.verifier_sealed.length).toBeGreaterThan(60)
    await browser.send('GET', back)
    const verifier = google.requests[0]?.parameters.get('code_verifier') ?? 'none'
    expect(attempt?.verifier_sealed.toString('latin1')).not.toContain(verifier)
    const entries = await auditOf(server.context, server.identities.organization_id, 2)
    expect(entries).toMatchObject([
      {
        event_type: 'connection.authorization_begun',
        metadata: { tool: 'docs_read', integration: 'google' },
      },
      { event_type: 'connection.created', metadata: { tool: 'docs_read', account } },
    ])
    expect(JSON.stringify(entries)).not.toMatch(new RegExp(`${state}|${verifier}`))
  })

  test('with the same `Idempotency-Key` gives the same address', async () => {
    const first = await begin(keyOf('member'), {}, { 'idempotency-key': 'once' })
    const again = await begin(keyOf('member'), {}, { 'idempotency-key': 'once' })
    expect(again.body).toEqual(first.body)
    expect(await attempts()).toHaveLength(1)
  })

  test('ends without a connection if the person refuses', async () => {
    const { searchParams } = new URL((await begin(keyOf('member'))).body.authorization_url)
    const query = new URLSearchParams({
      error: 'access_denied',
      state: searchParams.get('state') as string,
      iss: google.url,
    })
    const page = await (await signedIn('member')).send('GET', `${callback}?${query}`)
    expect(page.text).toContain('not connected')
    expect(page.text).toContain('access_denied')
    expect(await list(keyOf('member'))).toEqual([])
    expect(google.requests).toEqual([])
  })

  test('waits at most ten times for each person', async () => {
    for (let each = 0; each < 12; each += 1) await begin(keyOf('member'))
    await begin(keyOf('admin'))
    expect(await attempts()).toHaveLength(11)
  })
})

describe('a refusal', () => {
  /** Requests a path as a browser does when a person opens an address. */
  const open = async (browser: Browser, path: string) => {
    const headers = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8', cookie: browser.cookie }
    const answer = await fetch(`${server.base}${path}`, { headers })
    return { status: answer.status, headers: answer.headers, text: await answer.text() }
  }

  test('is a page for a browser, and JSON for a program', async () => {
    const browser = await signedIn('member')
    const path = `${callback}?state=${'x'.repeat(43)}`
    const page = await open(browser, path)
    expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8'])
    expect(page.text).toContain('<h1>The service is not connected</h1>')
    expect(page.text).toContain('begin again')
    const program = await browser.send('GET', path)
    expect([program.status, program.body.error.code]).toEqual([404, 'not_found'])
  })

  test('of somebody who is not signed in says where to sign in, and the answer can be sent again', async () => {
    const back = await agreed()
    const page = await open(new Browser(server), back)
    expect([page.status, page.text]).toEqual([401, expect.stringContaining('href="/console/sign-in"')])
    expect((await open(await signedIn('member'), back)).status).toBe(200)
  })

  test('repeats nothing of the answer as markup', async () => {
    const path = `${callback}?state=x&error=${encodeURIComponent('<script>')}&${encodeURIComponent('<b>')}=1`
    const page = await open(await signedIn('member'), path)
    expect(page.text).not.toMatch(/<script>|<b>/)
  })

  test('of a key without the scope names the key', async () => {
    const body = { name: 'nightly build', scopes: ['tools:read'] }
    const made = await server.call(keyOf('member'), 'POST', '/api-keys', body)
    const answer = await server.call(made.body.api_key, 'GET', await agreed())
    expect(answer.body.error.message).toBe(
      'the key `nightly build` lacks the scope `tools:connect`: use a key that has it',
    )
  })
})

describe('an answer is refused, and nothing is connected,', () => {
  /**
   * Columns: the attack, how the answer reaches the service, the status, and whether the code reached the authorization
   * server.
   */
  const attacks: [string, () => Promise<Answer>, number, boolean][] = [
    [
      'when its state was used before',
      async () => {
        const [back, browser] = [await agreed(), await signedIn('member')]
        expect((await browser.send('GET', back)).status).toBe(200)
        await server.context.db.deleteFrom('connections').execute()
        google.requests.length = 0
        return browser.send('GET', back)
      },
      404,
      false,
    ],
    [
      'when its state was used by a second request at the same moment',
      async () => {
        const [back, browser] = [await agreed(), await signedIn('member')]
        const answers = await Promise.all([1, 2, 3, 4].map(() => browser.send('GET', back)))
        expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
        expect(google.requests).toHaveLength(1)
        await server.context.db.deleteFrom('connections').execute()
        google.requests.length = 0
        return answers.find(({ status }) => status === 404) as Answer
      },
      404,
      false,
    ],
    [
      'when another person of the organization brings it',
      async () => (await signedIn('admin')).send('GET', await agreed('member')),
      404,
      false,
    ],
    [
      'when a person of another organization brings it',
      async () => {
        const elsewhere = await addOrganization(server.context)
        return server.call(elsewhere.owner.key, 'GET', await agreed())
      },
      404,
      false,
    ],
    ['when nobody is signed in', async () => new Browser(server).send('GET', await agreed()), 401, false],
    [
      'when its key has another scope',
      async () => {
        const body = { name: 'k', scopes: ['tools:read'] }
        const made = await server.call(keyOf('member'), 'POST', '/api-keys', body)
        return server.call(made.body.api_key, 'GET', await agreed())
      },
      403,
      false,
    ],
    [
      'when it comes too late',
      async () => {
        const back = await agreed()
        await server.context.pool.query(
          `update connection_attempts set expires_at = clock_timestamp() - interval '1 second'`,
        )
        return (await signedIn('member')).send('GET', back)
      },
      404,
      false,
    ],
    [
      'when it names another issuer',
      async () =>
        (await signedIn('member')).send('GET', changed(await agreed(), 'iss', 'https://evil.example')),
      422,
      false,
    ],
    [
      'when it lacks the issuer that the server always names',
      async () => (await signedIn('member')).send('GET', changed(await agreed(), 'iss', null)),
      422,
      false,
    ],
    [
      'when an error names another issuer',
      async () => {
        const path = changed(changed(await agreed(), 'code', null), 'error', 'access_denied')
        return (await signedIn('member')).send('GET', changed(path, 'iss', 'https://evil.example'))
      },
      422,
      false,
    ],
    [
      'when it comes to the address of another integration',
      async () =>
        (await signedIn('member')).send('GET', (await agreed()).replace('callback/google', 'callback/slack')),
      404,
      false,
    ],
    [
      'when its state is unknown',
      async () => (await signedIn('member')).send('GET', changed(await agreed(), 'state', 'x'.repeat(43))),
      404,
      false,
    ],
    [
      'when it has no state',
      async () => (await signedIn('member')).send('GET', changed(await agreed(), 'state', null)),
      404,
      false,
    ],
    [
      'when its code belongs to another authorization',
      async () => {
        const other = new URL(await agreed('admin'), publicUrl).searchParams.get('code') as string
        return (await signedIn('member')).send('GET', changed(await agreed(), 'code', other))
      },
      422,
      true,
    ],
    [
      'when its code was used before',
      async () => {
        const [back, browser] = [await agreed(), await signedIn('member')]
        expect((await browser.send('GET', back)).status).toBe(200)
        await server.context.db.deleteFrom('connections').execute()
        const code = new URL(back, publicUrl).searchParams.get('code') as string
        return browser.send('GET', changed(await agreed(), 'code', code))
      },
      422,
      true,
    ],
    [
      'when another redirect address was sent to the server',
      async () => {
        const back = await agreed()
        await server.context.pool.query(
          `update connection_attempts set redirect_uri = redirect_uri || '/elsewhere'`,
        )
        return (await signedIn('member')).send('GET', back)
      },
      422,
      true,
    ],
    [
      'when the person has left the organization meanwhile',
      async () => {
        const { organization_id: organization } = server.identities
        const leaver = await addPerson(server.context, organization, 'member')
        const { body } = await begin(leaver.key)
        const back = await google.authorize(body.authorization_url)
        await server.call(keyOf('owner'), 'DELETE', `/organizations/${organization}/members/${leaver.userId}`)
        return server.call(leaver.key, 'GET', back.pathname + back.search)
      },
      404,
      true,
    ],
    [
      'when the state is given twice',
      async () => (await signedIn('member')).send('GET', `${await agreed()}&state=other`),
      422,
      false,
    ],
    [
      'when the server does not answer',
      async () => {
        const back = await agreed()
        google.onToken = async () => 'lost'
        return (await signedIn('member')).send('GET', back)
      },
      503,
      true,
    ],
  ]
  test.each(attacks)('%s', async (_, attack, status, reached) => {
    const answer = await attack()
    expect([answer.status, google.requests.length > 0]).toEqual([status, reached])
    expect(answer.text).not.toContain(google.client.secret)
    const rows = await server.context.db.selectFrom('connections').selectAll().execute()
    expect(rows.filter(({ status: each }) => each !== 'revoked')).toEqual([])
  })

  test('and the server sends nobody to an address that is not registered', async () => {
    const url = new URL((await begin(keyOf('member'))).body.authorization_url)
    url.searchParams.set('redirect_uri', 'http://127.0.0.1:9/evil')
    await expect(google.authorize(url.href)).rejects.toThrow('redirect_uri')
  })

  test('and the server refuses an answer without the verifier of its browser', async () => {
    const url = new URL((await begin(keyOf('member'))).body.authorization_url)
    url.searchParams.set('code_challenge', 'A'.repeat(43))
    const back = await google.authorize(url.href)
    const answer = await (await signedIn('member')).send('GET', back.pathname + back.search)
    expect([answer.status, answer.body.error.message]).toEqual([
      422,
      expect.stringContaining('invalid_grant'),
    ])
  })
})

describe('a connection without a credential', () => {
  test('says which settings the operator must set', async () => {
    const bare = await startTestServer()
    try {
      const { api_key: key } = bare.identities.users.member
      const refused = await bare.call(key, 'POST', '/tools/docs_read/connect', { scope: 'personal' })
      expect([refused.status, refused.body.error.code]).toEqual([422, 'validation_error'])
      expect(refused.body.error.message).toContain('GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET')
      expect(refused.body.error.details).toMatchObject([{ path: 'credential' }])
    } finally {
      await bare.close()
    }
  })

  test('needs one where the service has tokens', async () => {
    const refused = await server.call(keyOf('member'), 'POST', '/tools/github_comment/connect', {
      scope: 'personal',
    })
    expect([refused.status, refused.body.error.message]).toEqual([
      422,
      '`credential` is missing: give the credential for GitHub',
    ])
  })
})

test('a revoked connection is revoked at the service too, unless another one has the same account', async () => {
  const personal = await agreed('member')
  await (await signedIn('member')).send('GET', personal)
  const shared = await agreed('admin', { scope: 'organization' })
  await (await signedIn('admin')).send('GET', shared)
  const revocations = () => google.requests.filter(({ path }) => path === '/revoke')
  for (const [index, { id }] of (await list(keyOf('admin'))).entries()) {
    expect((await server.call(keyOf('admin'), 'DELETE', `/connections/${id}`)).status).toBe(204)
    expect(revocations()).toHaveLength(index)
  }
  expect(await list(keyOf('admin'))).toMatchObject([{ status: 'revoked' }, { status: 'revoked' }])
})
