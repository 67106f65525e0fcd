import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { auditOf } from '../../governance/support.ts'
import {
  account,
  startAuthorizationServer,
  type AuthorizationServer,
} from '../../support/authorization-server.ts'
import { Browser } from '../browser.ts'
import { addOrganization, addPerson } from '../fixtures.ts'
import { startBeside, type Answer, type TestServer } from '../server.ts'
import { codeOf, useServer } from '../use-server.ts'

/* People connect Google in the browser, at an authorization server that plays Google. */

const publicUrl = 'http://127.0.0.1:9'
const callback = '/api/v1/connections/callback/google'

let server: TestServer
let google: AuthorizationServer
const browsers = new Map<Name, Browser>()
beforeAll(async () => {
  google = await startAuthorizationServer([`${publicUrl}${callback}`])
  // The address of the server is only known now.
  Object.assign(env, {
    GOOGLE_CLIENT_ID: google.client.id,
    GOOGLE_CLIENT_SECRET: google.client.secret,
    GOOGLE_BASE_URL: google.url,
  })
})
const env: NodeJS.ProcessEnv = { PUBLIC_URL: publicUrl }
const { as, ours, keyOf, personOf } = useServer((started) => (server = started), env)
beforeEach(async () => {
  await disconnect()
  await server.context.db.deleteFrom('connection_attempts').execute()
  google.onToken = async () => 'answered'
})
afterAll(() => google?.close())

type Name = 'owner' | 'admin' | 'member' | 'viewer'
/** Begins an authorization with this key. */
const begin = (key: string, more: object = {}, headers?: Record<string, string>): Promise<Answer> =>
  server.call(key, 'POST', '/tools/docs_read/connect', { scope: 'personal', ...more }, headers)
/** The connections that the owner of the key sees. */
const list = async (key: string) => (await server.call(key, 'GET', '/connections')).body.data
/** Removes all connections, and forgets what the authorization server was asked. */
async function disconnect(): Promise<void> {
  await server.context.db.deleteFrom('connections').execute()
  google.requests.length = 0
}

/** A browser in which this person is signed in. */
async function signedIn(name: Name): Promise<Browser> {
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
async function agreed(name: Name = 'member', more: object = {}): Promise<string> {
  const { status, body } = await begin(keyOf(name), more)
  expect(status).toBe(202)
  const { pathname, search } = await google.authorize(body.authorization_url)
  return pathname + search
}
/** Brings an answer of the authorization server, as a signed-in person. */
const bring = async (path: string, name: Name = 'member') => (await signedIn(name)).send('GET', path)

const attempts = () => server.context.db.selectFrom('connection_attempts').selectAll().execute()

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
    const page = await bring(back.pathname + back.search)
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
    expect((await bring(back, 'admin')).status).toBe(200)
    expect(await list(keyOf('viewer'))).toMatchObject([{ scope: 'organization', owner_id: null, account }])
  })

  test('is neither begun nor finished while the organization is frozen, and the service is not asked', async () => {
    const back = await agreed()
    await ours('owner', 'POST', '/freeze', { reason: 'an incident' })
    try {
      const words = expect.stringContaining('the organization is frozen (an incident)')
      for (const refused of [await begin(keyOf('member')), await bring(back)])
        expect([refused.status, refused.text]).toEqual([409, words])
      expect([google.requests, await list(keyOf('member'))]).toEqual([[], []])
    } finally {
      await ours('owner', 'POST', '/unfreeze', { reason: 'over' })
    }
  })

  test('is neither begun nor finished while the address of the person is not confirmed', async () => {
    // Signing in needs a confirmed address.
    await signedIn('member')
    const { userId } = personOf('member')
    const setConfirmed = (is: boolean) =>
      server.context.pool.query('update users set email_verified = $2 where id = $1', [userId, is])
    const back = await agreed()
    await setConfirmed(false)
    try {
      const refused = await begin(keyOf('member'))
      expect(codeOf(refused)).toBe('409 conflict')
      expect(refused.body.error.message).toMatch(/^confirm your address first/)
      const finished = await bring(back)
      expect([finished.status, finished.text]).toEqual([409, expect.stringContaining('confirm your address')])
      expect(await list(keyOf('member'))).toEqual([])
    } finally {
      await setConfirmed(true)
    }
  })

  test('keeps neither state nor verifier in the clear, and nothing of them in the audit log', async () => {
    await signedIn('member')
    const back = await agreed()
    const [attempt] = await attempts()
    const state = new URL(back, publicUrl).searchParams.get('state') ?? ''
    expect(JSON.stringify(attempt)).not.toContain(state)
    expect(attempt?.verifier_sealed.length).toBeGreaterThan(60)
    await bring(back)
    const verifier = google.requests[0]?.parameters.get('code_verifier') ?? 'none'
    expect(attempt?.verifier_sealed.toString('latin1')).not.toContain(verifier)
    const entries = await auditOf(server.context, server.identities.organization_id, 2)
    const tool = 'docs_read'
    expect(entries).toMatchObject([
      { event_type: 'connection.authorization_begun', metadata: { tool, integration: 'google' } },
      { event_type: 'connection.created', metadata: { tool, account } },
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
    const state = searchParams.get('state') as string
    const query = new URLSearchParams({ error: 'access_denied', state, iss: google.url })
    const page = await bring(`${callback}?${query}`)
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
    expect(codeOf(program)).toBe('404 not_found')
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
})

describe('a connection without a credential', () => {
  test('says which settings the operator must set', async () => {
    const { connections } = server.context.config
    const google = { ...connections.google, client: null }
    const bare = await startBeside(server, { connections: { ...connections, google } })
    try {
      const path = '/tools/docs_read/connect'
      const refused = await bare.call(keyOf('member'), 'POST', path, { scope: 'personal' })
      expect(codeOf(refused)).toBe('422 validation_error')
      expect(refused.body.error.message).toContain('GOOGLE_CLIENT_ID and GOOGLE_CLIENT_SECRET')
      expect(refused.body.error.details).toMatchObject([{ path: 'credential' }])
    } finally {
      await bare.close()
    }
  })

  test('needs one where the service has tokens', async () => {
    const body = { scope: 'personal' }
    const refused = await as('member', 'POST', '/tools/github_comment/connect', body)
    const message = '`credential` is missing: give the credential for GitHub'
    expect([refused.status, refused.body.error.message]).toEqual([422, message])
  })
})

test('a revoked connection is revoked at the service too, unless another one has the same account', async () => {
  await bring(await agreed('member'))
  await bring(await agreed('admin', { scope: 'organization' }), 'admin')
  const revocations = () => google.requests.filter(({ path }) => path === '/revoke')
  for (const [index, { id }] of (await list(keyOf('admin'))).entries()) {
    expect((await as('admin', 'DELETE', `/connections/${id}`)).status).toBe(204)
    expect(revocations()).toHaveLength(index)
  }
  expect(await list(keyOf('admin'))).toMatchObject([{ status: 'revoked' }, { status: 'revoked' }])
})

/** The path with another value of a parameter, or without the parameter. */
const changed = (path: string, name: string, value: string | null): string => {
  const url = new URL(path, publicUrl)
  if (value === null) url.searchParams.delete(name)
  else url.searchParams.set(name, value)
  return url.pathname + url.search
}

/* Answers of an authorization server that somebody has changed, stolen or sent again. */

describe('an answer is refused, and nothing is connected,', () => {
  /** A test of an attack: the status of the answer, and whether the code reached the authorization server. */
  function refused(when: string, status: number, reached: boolean, attack: () => Promise<Answer>): void {
    test(when, async () => {
      const answer = await attack()
      expect([answer.status, google.requests.length > 0]).toEqual([status, reached])
      expect(answer.text).not.toContain(google.client.secret)
      const rows = await server.context.db.selectFrom('connections').selectAll().execute()
      expect(rows.filter(({ status: each }) => each !== 'revoked')).toEqual([])
    })
  }

  refused('when its state was used before', 404, false, async () => {
    const [back, browser] = [await agreed(), await signedIn('member')]
    expect((await browser.send('GET', back)).status).toBe(200)
    await disconnect()
    return browser.send('GET', back)
  })
  refused('when its state was used by a second request at the same moment', 404, false, async () => {
    const [back, browser] = [await agreed(), await signedIn('member')]
    const answers = await Promise.all([1, 2, 3, 4].map(() => browser.send('GET', back)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    expect(google.requests).toHaveLength(1)
    await disconnect()
    return answers.find(({ status }) => status === 404) as Answer
  })
  refused('when its key has another scope', 403, false, async () => {
    const body = { name: 'nightly build', scopes: ['tools:read'] }
    const made = await as('member', 'POST', '/api-keys', body)
    const answer = await server.call(made.body.api_key, 'GET', await agreed())
    expect(answer.body.error.message).toBe(
      'the key `nightly build` lacks the scope `tools:connect`: use a key that has it',
    )
    return answer
  })
  refused('when it comes too late', 404, false, async () => {
    const back = await agreed()
    await server.context.pool.query(
      `update connection_attempts set expires_at = clock_timestamp() - interval '1 second'`,
    )
    return bring(back)
  })
  const changes: [string, number, string, string | null][] = [
    ['when it names another issuer', 422, 'iss', 'https://evil.example'],
    ['when it lacks the issuer that the server always names', 422, 'iss', null],
    ['when its state is unknown', 404, 'state', 'x'.repeat(43)],
    ['when it has no state', 404, 'state', null],
  ]
  for (const [when, status, name, value] of changes)
    refused(when, status, false, async () => bring(changed(await agreed(), name, value)))
  refused('when an error names another issuer', 422, false, async () => {
    const path = changed(changed(await agreed(), 'code', null), 'error', 'access_denied')
    return bring(changed(path, 'iss', 'https://evil.example'))
  })
  refused('when it comes to the address of another integration', 404, false, async () =>
    bring((await agreed()).replace('callback/google', 'callback/slack')),
  )
  refused('when its code belongs to another authorization', 422, true, async () => {
    const other = new URL(await agreed('admin'), publicUrl).searchParams.get('code') as string
    return bring(changed(await agreed(), 'code', other))
  })
  refused('when its code was used before', 422, true, async () => {
    const back = await agreed()
    expect((await bring(back)).status).toBe(200)
    await disconnect()
    const code = new URL(back, publicUrl).searchParams.get('code') as string
    return bring(changed(await agreed(), 'code', code))
  })
  refused('when another redirect address was sent to the server', 422, true, async () => {
    const back = await agreed()
    await server.context.pool.query(
      `update connection_attempts set redirect_uri = redirect_uri || '/elsewhere'`,
    )
    return bring(back)
  })
  refused('when the person has left the organization meanwhile', 404, true, async () => {
    const { organization_id: organization } = server.identities
    const leaver = await addPerson(server.context, organization, 'member')
    const { body } = await begin(leaver.key)
    const back = await google.authorize(body.authorization_url)
    await as('owner', 'DELETE', `/organizations/${organization}/members/${leaver.userId}`)
    return server.call(leaver.key, 'GET', back.pathname + back.search)
  })
  refused('when the state is given twice', 422, false, async () => bring(`${await agreed()}&state=other`))
  refused('when the server does not answer', 503, true, async () => {
    const back = await agreed()
    google.onToken = async () => 'lost'
    return bring(back)
  })

  test('from anybody but its person, and its person can still bring it', async () => {
    const back = await agreed()
    const elsewhere = await addOrganization(server.context)
    expect((await bring(back, 'admin')).status).toBe(404)
    expect((await server.call(elsewhere.owner.key, 'GET', back)).status).toBe(404)
    expect((await new Browser(server).send('GET', back)).status).toBe(401)
    expect([google.requests, await list(keyOf('admin')), await list(keyOf('member'))]).toEqual([[], [], []])
    expect((await server.call(elsewhere.owner.key, 'GET', '/connections')).body.data).toEqual([])
    expect((await bring(back)).status).toBe(200)
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
    const answer = await bring(back.pathname + back.search)
    expect([answer.status, answer.body.error]).toMatchObject([
      422,
      { message: expect.stringContaining('invalid_grant') },
    ])
  })
})
