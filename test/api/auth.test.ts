import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { startSmtpSink, type SmtpSink } from '../support/smtp-sink.ts'
import { until } from '../stack/until.ts'
import { Browser, totp } from './browser.ts'
import { addOrganization, sessionCookie } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

let sink: SmtpSink
let server: TestServer
beforeAll(async () => {
  sink = await startSmtpSink()
  server = await startTestServer({ env: { SMTP_URL: sink.url } })
})
afterAll(async () => {
  await server.close()
  await sink.close()
})
/** Limits are counted per address, and all these people share one. */
beforeEach(() => server.context.pool.query('delete from auth_rate_limits'))

const browser = () => new Browser(server)
const password = 'correct horse battery'
let made = 0
async function signUp(): Promise<{ email: string; id: string; at: Browser }> {
  const email = `person${(made += 1)}@acme.test`
  const at = browser()
  const { status, body } = await at.auth('sign-up/email', { name: 'Ana', email, password })
  expect(status).toBe(200)
  expect((await at.signIn(email, password)).status).toBe(200)
  return { email, id: body.user.id, at }
}

/** Has the effect of the mailed link, except that nothing ends. */
const confirm = (id: string) =>
  server.context.pool.query('update users set email_verified = true where id = $1', [id])
async function confirmed() {
  const person = await signUp()
  await confirm(person.id)
  return person
}

/** The last mail to an address, once it has arrived, without soft line breaks. */
async function mailTo(email: string, subject: string): Promise<string> {
  const find = () =>
    sink.deliveries.findLast((mail) => mail.recipients.includes(email) && mail.subject === subject)
  await until(`a mail to ${email}`, async () => find() !== undefined)
  return (find()?.raw ?? '').replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=')
}
const tokenIn = (mail: string): string => /token=([\w.-]+)/.exec(mail)?.[1] ?? ''

async function eventsOf(organizationId: string): Promise<string[]> {
  const rows = await server.context.db
    .selectFrom('audit_events')
    .select('event_type')
    .where('organization_id', '=', organizationId)
    .orderBy('seq')
    .execute()
  return rows.map((row) => row.event_type)
}

describe('signing up', () => {
  test('creates a user with a personal organization on plan free, of which they are owner', async () => {
    const { at, email, id } = await signUp()
    expect(id).toMatch(/^usr_/)
    const { body } = await at.send('GET', '/me')
    expect(body.user).toEqual({ id, email, name: 'Ana', email_verified: false, second_factor: false })
    expect(body.organizations).toEqual([
      {
        id: body.organization_id,
        name: 'Ana',
        personal: true,
        plan: 'free',
        role: 'owner',
        slack_account: null,
      },
    ])
    expect(body.key_id).toBeNull()
    expect(body.scopes['organizations:*']).toBe(true)
    expect(await eventsOf(body.organization_id)).toEqual(['organization.created', 'session.started'])
  })

  test('gives the same answer for an address with an account, whose owner gets a mail', async () => {
    const { email } = await signUp()
    const again = await browser().auth('sign-up/email', { name: 'Eve', email, password: 'another password' })
    const fresh = await browser().auth('sign-up/email', { name: 'Eve', email: `new-${email}`, password })
    expect([again.status, Object.keys(again.body.user).sort(), again.body.token]).toEqual([
      fresh.status,
      Object.keys(fresh.body.user).sort(),
      null,
    ])
    await mailTo(email, 'You already have an account')
    expect((await browser().signIn(email, 'another password')).status).toBe(401)
  })

  test('an interrupted sign-up is completed at sign-in, including the organization', async () => {
    const { email, id } = await signUp()
    const { pool } = server.context
    await pool.query('delete from memberships where user_id = $1', [id])
    const at = browser()
    await at.signIn(email, password)
    expect((await at.send('GET', '/me')).body.organizations).toHaveLength(1)
  })

  test('the mailed link confirms the address', async () => {
    const { at, email } = await signUp()
    const token = tokenIn(await mailTo(email, 'Confirm your address'))
    const { status } = await at.send('GET', `/api/auth/verify-email?token=${token}`)
    expect(status).toBe(200)
    expect((await at.send('GET', '/me')).body.user.email_verified).toBe(true)
  })

  test.each([
    ['a short password', { name: 'A', email: 'a@acme.test', password: 'short' }],
    ['no address', { name: 'A', email: 'acme', password }],
    ['a very long name', { name: 'A'.repeat(201), email: 'a@acme.test', password }],
  ])('%s is refused', async (_, body) => {
    expect((await browser().auth('sign-up/email', body)).status).toBe(400)
  })

  test('a body that is not JSON, or too long, is refused before the library reads it', async () => {
    const post = (body: string, type: string) =>
      fetch(`${server.base}/api/auth/sign-up/email`, {
        method: 'POST',
        body,
        headers: { 'content-type': type },
      })
    expect((await post('a=b', 'application/x-www-form-urlencoded')).status).toBe(415)
    expect((await post(JSON.stringify({ name: 'x'.repeat(70_000) }), 'application/json')).status).toBe(413)
  })
})

describe('signing in', () => {
  test.each(['owner', 'admin', 'approver', 'member', 'viewer'] as const)(
    'the %s of a first start signs in with the password in bootstrap.json',
    async (name) => {
      const at = browser()
      const { email, password: theirs } = server.identities.users[name]
      expect((await at.signIn(email, theirs)).status).toBe(200)
      const { body } = await at.send('GET', '/me')
      expect(body.user.email_verified).toBe(true)
      expect(body.organization_id).toBe(server.identities.organization_id)
    },
  )

  test('the cookie is only sent to this service', async () => {
    const { email, password: theirs } = server.identities.users.viewer
    const { headers } = await browser().signIn(email, theirs)
    const [cookie = ''] = headers.getSetCookie()
    expect(cookie).toMatch(/^countersign\.session_token=/)
    expect(cookie).toMatch(/; HttpOnly/i)
    expect(cookie).toMatch(/; SameSite=Lax/i)
    expect(cookie).toMatch(/; Path=\//i)
  })

  test('a wrong password and an unknown address get the same answer', async () => {
    const { email } = await signUp()
    const wrong = await browser().signIn(email, 'not the password')
    const unknown = await browser().signIn('nobody@acme.test', 'not the password')
    expect([unknown.status, unknown.body]).toEqual([wrong.status, wrong.body])
    expect(wrong.status).toBe(401)
  })

  test('signing out ends the session at once', async () => {
    const { at, email } = await signUp()
    const { cookie } = at
    const organization = (await at.send('GET', '/me')).body.organization_id
    expect((await at.auth('sign-out', {})).status).toBe(200)
    expect((await browser().send('GET', '/me', undefined, { cookie })).status).toBe(401)
    expect((await eventsOf(organization)).at(-1)).toBe('session.ended')
    expect(email).toBeDefined()
  })

  test('an expired session gives no access', async () => {
    const { userId } = (await addOrganization(server.context)).owner
    const live = await sessionCookie(server.context, userId)
    const over = await sessionCookie(server.context, userId, new Date(Date.now() - 1_000))
    expect((await browser().send('GET', '/me', undefined, { cookie: live })).status).toBe(200)
    expect((await browser().send('GET', '/me', undefined, { cookie: over })).status).toBe(401)
  })

  test('an invented cookie gives no access', async () => {
    const { at } = await signUp()
    const cookie = at.cookie.replace(
      /(session_token=[^.]+)\.[^;]+/,
      '$1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D',
    )
    expect((await browser().send('GET', '/me', undefined, { cookie })).status).toBe(401)
  })

  test('of simultaneous requests exactly as many pass as the limit allows, counted in the database', async () => {
    const ask = () => browser().auth('request-password-reset', { email: 'nobody@acme.test' })
    const attempts = await Promise.all(Array.from({ length: 9 }, ask))
    const refused = attempts.filter((answer) => answer.status === 429)
    expect(refused).toHaveLength(4)
    expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThan(0)
  })
})

describe('a session', () => {
  test('can change something only from pages of this service', async () => {
    const { at } = await signUp()
    const post = (headers: Record<string, string>) =>
      fetch(`${server.base}/api/v1/organizations`, {
        method: 'POST',
        body: JSON.stringify({ name: 'Acme' }),
        headers: { 'content-type': 'application/json', cookie: at.cookie, ...headers },
      }).then((response) => response.status)
    expect(await post({})).toBe(401)
    expect(await post({ origin: 'null' })).toBe(401)
    expect(await post({ origin: 'https://evil.example' })).toBe(401)
    expect(await post({ origin: `${server.base}.evil.example` })).toBe(401)
    expect(await post({ origin: server.base })).toBe(201)
    const { length } = (await at.send('GET', '/me')).body.organizations
    expect(length).toBe(2)
  })

  test('is not used if a wrong key is sent', async () => {
    const { at } = await signUp()
    const answer = await at.send('GET', '/me', undefined, { authorization: 'Bearer nonsense' })
    expect(answer.status).toBe(401)
  })

  test('acts in the organization that the header, the path or the query names', async () => {
    const { at, id } = await signUp()
    const { context } = server
    const other = await addOrganization(context)
    const row = { organization_id: other.id, user_id: id, role: 'viewer' as const }
    await context.db.insertInto('memberships').values(row).execute()
    const first = (await at.send('GET', '/me')).body.organization_id
    expect(first).not.toBe(other.id)
    const chosen = await at.send('GET', '/me', undefined, { 'x-organization-id': other.id })
    expect(chosen.body.organization_id).toBe(other.id)
    expect(chosen.body.scopes).not.toHaveProperty('rules:write')
    const rules = (headers: Record<string, string>, path = '/rule-templates') =>
      at.send('GET', path, undefined, headers).then((answer) => answer.status)
    expect(await rules({})).toBe(200)
    expect(await rules({ 'x-organization-id': other.id })).toBe(403)
    expect(await rules({}, `/organizations/${other.id}/rules`)).toBe(403)
    expect(await rules({}, `/rule-templates?organization_id=${other.id}`)).toBe(403)
    const strange = server.identities.organization_id
    expect(await rules({ 'x-organization-id': strange })).toBe(404)
  })

  test('makes keys within its role, audited as the person', async () => {
    const { at } = await confirmed()
    const { status, body } = await at.send('POST', '/api-keys', { name: 'mine', scopes: ['runs:read'] })
    expect(status).toBe(201)
    expect((await server.call(body.api_key, 'GET', '/runs')).status).toBe(200)
    const kept = { 'idempotency-key': 'one' }
    const once = await at.send('POST', '/api-keys', { name: 'once', scopes: ['runs:read'] }, kept)
    const again = await at.send('POST', '/api-keys', { name: 'once', scopes: ['runs:read'] }, kept)
    expect(again.body).toEqual(once.body)
  })
})

describe('passwords', () => {
  test('a mailed token sets a new one, once, and ends every session', async () => {
    const { at, email } = await signUp()
    const organization = (await at.send('GET', '/me')).body.organization_id
    expect((await browser().auth('request-password-reset', { email })).status).toBe(200)
    const token = tokenIn(await mailTo(email, 'A new password'))
    const set = (newPassword: string) => browser().auth('reset-password', { token, newPassword })
    expect((await set('a better password')).status).toBe(200)
    expect((await set('an even better one')).status).toBe(400)
    expect((await at.send('GET', '/me')).status).toBe(401)
    expect((await browser().signIn(email, password)).status).toBe(401)
    expect((await browser().signIn(email, 'a better password')).status).toBe(200)
    expect(await eventsOf(organization)).toContain('user.password_changed')
  })

  test('asking for one gives the same answer with or without an account', async () => {
    const { email } = await signUp()
    const known = await browser().auth('request-password-reset', { email })
    const unknown = await browser().auth('request-password-reset', { email: 'nobody@acme.test' })
    expect([unknown.status, unknown.body]).toEqual([known.status, known.body])
  })

  test('and second factors can only be changed by a signed-in person, never with a key', async () => {
    const { api_key: key, password: theirs } = server.identities.users.owner
    const bodies = {
      'change-password': { currentPassword: theirs, newPassword: 'a new password' },
      'two-factor/enable': { password: theirs },
      'two-factor/disable': { password: theirs },
      'two-factor/generate-backup-codes': { password: theirs },
    }
    for (const [path, body] of Object.entries(bodies)) {
      const answer = await server.call(key, 'POST', `/api/auth/${path}`, body)
      expect([path, answer.status]).toEqual([path, 401])
    }
  })
})

describe('a second factor', () => {
  test('is required at every later sign-in, by app or by a backup code that works once', async () => {
    const { at, email } = await confirmed()
    const organization = (await at.send('GET', '/me')).body.organization_id
    const { key, backupCodes } = await at.enrol(password)
    expect((await at.send('GET', '/me')).body.user.second_factor).toBe(true)

    const half = browser()
    expect((await half.signIn(email, password)).body.twoFactorRedirect).toBe(true)
    expect((await half.send('GET', '/me')).status).toBe(401)
    expect((await half.auth('two-factor/verify-totp', { code: '000000' })).status).toBe(401)
    expect((await half.auth('two-factor/verify-totp', { code: totp(key, Date.now() + 30_000) })).status).toBe(
      200,
    )
    expect((await half.send('GET', '/me')).status).toBe(200)

    const lost = browser()
    await lost.signIn(email, password)
    expect((await lost.auth('two-factor/verify-backup-code', { code: backupCodes[0] })).status).toBe(200)
    const twice = browser()
    await twice.signIn(email, password)
    expect((await twice.auth('two-factor/verify-backup-code', { code: backupCodes[0] })).status).toBe(401)

    const events = await eventsOf(organization)
    expect(events).toContain('mfa.enabled')
    expect(events).toContain('mfa.backup_codes_changed')
    // Three of six stopped at the password, which is not a sign-in; enrolling renews the session.
    expect(events.filter((type) => type === 'session.started')).toHaveLength(4)
  })

  test('its secret and codes are stored nowhere in plain text', async () => {
    const { at, id } = await confirmed()
    const { key, backupCodes } = await at.enrol(password)
    const { rows } = await server.context.pool.query('select * from auth_two_factors where user_id = $1', [
      id,
    ])
    const kept = JSON.stringify(rows)
    for (const secret of [key, ...backupCodes]) expect(kept).not.toContain(secret)
  })

  test('where it is required, a member without it is refused, with key or session, until enrolled', async () => {
    const { at } = await confirmed()
    const { body: acme } = await at.send('POST', '/organizations', { name: 'Acme' })
    const here = { 'x-organization-id': acme.id }
    const { body: key } = await at.send('POST', '/api-keys', {
      name: 'mine',
      scopes: ['runs:read'],
      organization_id: acme.id,
    })
    const governance = `/organizations/${acme.id}/governance`
    const tooEarly = await at.send('PATCH', governance, { require_mfa: true })
    expect([tooEarly.status, tooEarly.body.error.code]).toEqual([409, 'conflict'])
    await at.enrol(password)
    expect((await at.send('PATCH', governance, { require_mfa: true })).status).toBe(200)
    expect((await at.send('GET', '/runs', undefined, here)).status).toBe(200)
    await at.auth('two-factor/disable', { password })
    const refused = await at.send('GET', '/runs', undefined, here)
    expect([refused.status, refused.body.error.code]).toEqual([403, 'mfa_required'])
    const [{ message: page }] = refused.body.error.details
    const { pathname } = new URL(page)
    expect((await fetch(`${server.base}${pathname}`)).status).toBe(200)
    for (const path of ['/runs', '/me', '/scopes']) {
      const { status, body } = await server.call(key.api_key, 'GET', path)
      expect([path, status, body.error.code]).toEqual([path, 403, 'mfa_required'])
    }
    // Other organizations still work, and they can see where they are a member.
    expect((await at.send('GET', '/runs')).status).toBe(200)
    expect((await at.send('GET', '/me')).status).toBe(200)
    await at.enrol(password)
    expect((await at.send('GET', '/runs', undefined, here)).status).toBe(200)
    // The key was made before the factor was enrolled.
    expect((await server.call(key.api_key, 'GET', '/runs')).status).toBe(403)
    expect((await at.send('POST', `/api-keys/${key.id}/confirm`)).status).toBe(200)
    expect((await server.call(key.api_key, 'GET', '/runs')).status).toBe(200)
    await at.auth('two-factor/disable', { password })
    expect((await at.send('GET', '/runs', undefined, here)).status).toBe(403)
  })
})
