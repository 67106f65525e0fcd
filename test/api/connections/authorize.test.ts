import { describe, expect, test } from '@jest/globals'
import { auditOf } from '../../governance/support.ts'
import { account } from '../../support/authorization-server.ts'
import { Browser } from '../browser.ts'
import { startTestServer } from '../server.ts'
import { callback, publicUrl, useAuthorizing, type Authorizing } from './authorizing.ts'

let server: Authorizing['server']
let google: Authorizing['google']
let keyOf: Authorizing['keyOf']
let begin: Authorizing['begin']
let list: Authorizing['list']
let signedIn: Authorizing['signedIn']
let agreed: Authorizing['agreed']
useAuthorizing((started) => ({ server, google, keyOf, begin, list, signedIn, agreed } = started))

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

  test('is neither begun nor finished while the organization is frozen, and the service is not asked', async () => {
    const back = await agreed()
    const organization = `/organizations/${server.identities.organization_id}`
    await server.call(keyOf('owner'), 'POST', `${organization}/freeze`, { reason: 'an incident' })
    try {
      const browser = await signedIn('member')
      for (const refused of [await begin(keyOf('member')), await browser.send('GET', back)])
        expect([refused.status, refused.text]).toEqual([
          409,
          expect.stringContaining('the organization is frozen (an incident)'),
        ])
      expect([google.requests, await list(keyOf('member'))]).toEqual([[], []])
    } finally {
      await server.call(keyOf('owner'), 'POST', `${organization}/unfreeze`, { reason: 'over' })
    }
  })

  test('is neither begun nor finished while the address of the person is not confirmed', async () => {
    const browser = await signedIn('member')
    const setConfirmed = (is: boolean) =>
      server.context.db
        .updateTable('users')
        .set({ email_verified: is })
        .where('id', '=', server.identities.users.member.user_id)
        .execute()
    const back = await agreed()
    await setConfirmed(false)
    try {
      const refused = await begin(keyOf('member'))
      expect([refused.status, refused.body.error.code]).toEqual([409, 'conflict'])
      expect(refused.body.error.message).toMatch(/^confirm your address first/)
      const finished = await browser.send('GET', back)
      expect([finished.status, finished.text]).toEqual([409, expect.stringContaining('confirm your address')])
      expect(await list(keyOf('member'))).toEqual([])
    } finally {
      await setConfirmed(true)
    }
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
