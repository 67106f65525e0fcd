import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { beforeAll, describe, expect, test } from '@jest/globals'
import type { SmtpSink } from '../../support/smtp-sink.ts'
import {
  confirmedPerson,
  eventTypesOf,
  mailTo,
  password,
  signedUp,
  tokenIn,
  useMailingServer,
} from '../signed-in.ts'
import type { TestServer } from '../server.ts'
import { Browser, totp } from '../browser.ts'
import { addOrganization, sessionCookie } from '../fixtures.ts'
import { withScrypt } from '../quick-passwords.ts'
import { hashPassword } from '../../../src/governance/people/bootstrap.ts'

let sink: SmtpSink
let server: TestServer
useMailingServer((...both) => ([server, sink] = both))

const browser = () => new Browser(server)

/** The status of an answer to a browser that has only these headers. */
const statusWith = async (headers: Record<string, string>) =>
  (await browser().send('GET', '/me', undefined, headers)).status

describe('signing up', () => {
  test('creates a user with a personal organization on plan free, of which they are owner', async () => {
    const { at, email, id } = await signedUp(server)
    expect(id).toMatch(/^usr_/)
    const { body } = await at.send('GET', '/me')
    const user = { id, email, name: 'Ana', email_verified: false, second_factor: false, time_zone: null }
    expect(body.user).toEqual(user)
    expect(body.organizations).toEqual([
      {
        id: body.organization_id,
        name: 'Ana',
        personal: true,
        plan: 'free',
        role: 'owner',
        groups: [],
        deputy_for: [],
        slack_account: null,
        slack_problem: null,
        slack_claim: null,
        frozen: null,
      },
    ])
    expect(body.key_id).toBeNull()
    expect(body.scopes['organizations:*']).toBe(true)
    expect(await eventTypesOf(server, body.organization_id)).toEqual([
      'organization.created',
      'session.started',
    ])
  })

  test('gives the same answer for an address with an account, whose owner gets a mail', async () => {
    const { email } = await signedUp(server)
    const signUp = async (address: string) => {
      const form = { name: 'Eve', email: address, password: 'another password' }
      const { status, body } = await browser().auth('sign-up/email', form)
      return { status, token: body.token, fields: Object.keys(body.user).sort() }
    }
    const fresh = await signUp(`new-${email}`)
    expect(await signUp(email)).toEqual({ ...fresh, token: null })
    await mailTo(sink, email, 'You already have an account')
    expect((await browser().signIn(email, 'another password')).status).toBe(401)
  })

  test('an interrupted sign-up is completed at sign-in, including the organization', async () => {
    const { email, id } = await signedUp(server)
    const { pool } = server.context
    await pool.query('delete from memberships where user_id = $1', [id])
    const at = browser()
    await at.signIn(email, password)
    expect((await at.send('GET', '/me')).body.organizations).toHaveLength(1)
  })

  test('the mailed link confirms the address', async () => {
    const { at, email } = await signedUp(server)
    const token = tokenIn(await mailTo(sink, email, 'Confirm your address'))
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

  test('scrypt of the service and of the sign-in library agree', () =>
    withScrypt(async () => {
      const { user_id: id, email } = server.identities.users.viewer
      const { pool } = server.context
      const { rows } = await pool.query('select password from auth_accounts where user_id = $1', [id])
      const write = (hash: string) =>
        pool.query('update auth_accounts set password = $2 where user_id = $1', [id, hash])
      await write(await hashPassword(password))
      expect((await browser().signIn(email, password)).status).toBe(200)
      expect((await browser().signIn(email, 'another password')).status).toBe(401)
      await write(rows[0].password)
    }))

  test('the cookie is only sent to this service', async () => {
    const { email, password: theirs } = server.identities.users.viewer
    const { headers } = await browser().signIn(email, theirs)
    const [cookie] = headers.getSetCookie()
    for (const part of [/^countersign\.session_token=/, /; HttpOnly/i, /; SameSite=Lax/i, /; Path=\//i])
      expect(cookie).toMatch(part)
  })

  test('signing out ends the session at once', async () => {
    const { at } = await signedUp(server)
    const { cookie } = at
    const organization = (await at.send('GET', '/me')).body.organization_id
    expect((await at.auth('sign-out', {})).status).toBe(200)
    expect(await statusWith({ cookie })).toBe(401)
    expect((await eventTypesOf(server, organization)).at(-1)).toBe('session.ended')
  })

  test('an expired session gives no access', async () => {
    const { userId } = (await addOrganization(server.context)).owner
    const live = await sessionCookie(server.context, userId)
    const over = await sessionCookie(server.context, userId, new Date(Date.now() - 1_000))
    expect(await statusWith({ cookie: live })).toBe(200)
    expect(await statusWith({ cookie: over })).toBe(401)
  })

  test('an invented cookie gives no access', async () => {
    const { at } = await signedUp(server)
    const cookie = at.cookie.replace(/(session_token=[^.]+)\.[^;]+/, `$1.${'A'.repeat(43)}%3D`)
    expect(await statusWith({ cookie })).toBe(401)
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
    const { at } = await signedUp(server)
    const post = (headers: Record<string, string>) =>
      fetch(`${server.base}/api/v1/organizations`, {
        method: 'POST',
        body: JSON.stringify({ name: 'Acme' }),
        headers: { 'content-type': 'application/json', cookie: at.cookie, ...headers },
      }).then((response) => response.status)
    expect(await post({})).toBe(401)
    for (const origin of ['null', 'https://evil.example', `${server.base}.evil.example`])
      expect([origin, await post({ origin })]).toEqual([origin, 401])
    expect(await post({ origin: server.base })).toBe(201)
    expect((await at.send('GET', '/me')).body.organizations).toHaveLength(2)
  })

  test('is not used if a wrong key is sent', async () => {
    const { at } = await signedUp(server)
    expect((await at.send('GET', '/me', undefined, { authorization: 'Bearer nonsense' })).status).toBe(401)
  })

  test('acts in the organization that the header, the path or the query names', async () => {
    const { at, id } = await signedUp(server)
    const { context } = server
    const other = await addOrganization(context)
    await context.pool.query(`insert into memberships (organization_id, user_id, role) values ($1, $2, 'viewer')`, [other.id, id]) // prettier-ignore
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
    expect(await rules({ 'x-organization-id': server.identities.organization_id })).toBe(404)
  })

  test('makes keys within its role, audited as the person', async () => {
    const { at } = await confirmedPerson(server)
    const { status, body } = await at.send('POST', '/api-keys', { name: 'mine', scopes: ['runs:read'] })
    expect(status).toBe(201)
    expect((await server.call(body.api_key, 'GET', '/runs')).status).toBe(200)
    const kept = { 'idempotency-key': 'one' }
    const make = () => at.send('POST', '/api-keys', { name: 'once', scopes: ['runs:read'] }, kept)
    expect((await make()).body).toEqual((await make()).body)
  })
})

describe('a trusted device', () => {
  test('is not offered: every sign-in takes the second factor', async () => {
    const { email, at, id } = await confirmedPerson(server)
    const { key, backupCodes } = await at.enrol(password)
    const half = new Browser(server)
    await half.signIn(email, password)
    for (const [path, code] of [
      ['verify-totp', totp(key, Date.now() + 30_000)],
      ['verify-backup-code', backupCodes[0]],
    ]) {
      const answer = await half.auth(`two-factor/${path}`, { code, trustDevice: true })
      expect([path, answer.status, answer.body.code]).toEqual([path, 400, 'TRUST_DEVICE_NOT_OFFERED'])
    }
    const code = totp(key, Date.now() + 30_000)
    expect((await half.auth('two-factor/verify-totp', { code, trustDevice: false })).status).toBe(200)
    expect(half.cookie).not.toContain('trust_device')
    const { rowCount } = await server.context.pool.query(
      `select 1 from auth_verifications where value = $1 and identifier like 'trust-device-%'`,
      [id],
    )
    expect(rowCount).toBe(0)
    await half.auth('sign-out', {})
    expect((await half.signIn(email, password)).body.twoFactorRedirect).toBe(true)
  })
})

describe('an authenticator’s code', () => {
  test('works once: of simultaneous sign-ins with it one succeeds', async () => {
    const { email, at } = await confirmedPerson(server)
    const { key } = await at.enrol(password)
    const halves = await Promise.all(
      Array.from({ length: 3 }, async () => {
        const half = new Browser(server)
        expect((await half.signIn(email, password)).body.twoFactorRedirect).toBe(true)
        return half
      }),
    )
    const code = totp(key, Date.now() + 30_000)
    const answers = await Promise.all(halves.map((half) => half.auth('two-factor/verify-totp', { code })))
    expect(answers.map(({ status }) => status).sort((a, b) => a - b)).toEqual([200, 401, 401])
    const inside = await Promise.all(halves.map((half) => half.send('GET', '/me')))
    expect(inside.filter(({ status }) => status === 200)).toHaveLength(1)
  })

  test('that enrolled is used up', async () => {
    const { email, at } = await confirmedPerson(server)
    const enrolled = await at.auth('two-factor/enable', { password })
    const key = new URL(enrolled.body.totpURI).searchParams.get('secret') as string
    const code = totp(key)
    expect((await at.auth('two-factor/verify-totp', { code })).status).toBe(200)
    const half = new Browser(server)
    await half.signIn(email, password)
    const again = await half.auth('two-factor/verify-totp', { code })
    expect([again.status, again.body.code]).toEqual([401, 'INVALID_CODE'])
    expect((await half.send('GET', '/me')).status).toBe(401)
  })
})

test('a new password ends every other session, even without asking for it', async () => {
  for (const more of [{}, { revokeOtherSessions: false }]) {
    const { email, at } = await confirmedPerson(server)
    const other = new Browser(server)
    await other.signIn(email, password)
    const body = { currentPassword: password, newPassword: 'another password', ...more }
    expect((await at.auth('change-password', body)).status).toBe(200)
    expect((await other.send('GET', '/me')).status).toBe(401)
    expect((await at.send('GET', '/me')).status).toBe(200)
  }
})

describe('switched off', () => {
  let at: Browser
  beforeAll(async () => ({ at } = await confirmedPerson(server)))

  test.each([
    ['POST', 'verify-password'],
    ['POST', 'verify-password/'],
    ['POST', '%76erify-password'],
    ['GET', 'error'],
    ['GET', 'ok'],
    ['GET', 'callback/github'],
    ['POST', 'callback/github'],
    ['GET', 'reset-password/SECRETTOKEN'],
    ['GET', 'reset-password/SECRETTOKEN?callbackURL=%2Fconsole%2F'],
  ])('%s %s', async (method, path) => {
    const body = method === 'GET' ? undefined : { password }
    expect((await at.send(method, `/api/auth/${path}`, body)).status).toBe(404)
  })
})

test('tokens in paths are not logged', async () => {
  const lines: unknown[] = []
  const { log } = server.context
  const warn = log.warn.bind(log)
  log.warn = (...line: unknown[]) => lines.push(line)
  try {
    const at = new Browser(server)
    await at.send('GET', '/api/auth/reset-password/SECRETTOKEN?callbackURL=http%3A%2F%2Fevil.example%2F')
    await at.signIn('nobody@acme.test', password)
  } finally {
    log.warn = warn
  }
  expect(JSON.stringify(lines)).not.toContain('SECRETTOKEN')
  expect(JSON.stringify(lines)).toContain('/api/auth/sign-in/email')
})

describe('requests that no browser sends', () => {
  /** Sends one request exactly as written here, and returns its status. */
  async function statusOf(line: string): Promise<number> {
    const { port } = new URL(server.base)
    const socket = connect(Number(port), '127.0.0.1')
    socket.write(`${line} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`)
    return Number((await text(socket)).split(' ', 2)[1])
  }

  test.each([
    ['TRACE /api/auth/get-session', 404],
    ['PUT /api/auth/get-session', 404],
    ['DELETE /api/auth/sign-out', 404],
    ['GET http://a:99999/api/auth/get-session', 421],
    ['GET http://[/api/auth/get-session', 404],
    ['GET http://elsewhere.example/api/auth/get-session', 421],
    ['GET /api/auth/get-session', 200],
  ])('%s is %i', async (line, status) => {
    expect(await statusOf(line)).toBe(status)
  })
})

test('two simultaneous requests can both begin a second factor', async () => {
  for (let each = 0; each < 5; each += 1) {
    const { at } = await confirmedPerson(server)
    await server.context.pool.query('delete from auth_rate_limits')
    const begin = async () => (await at.auth('two-factor/enable', { password })).status
    const statuses = await Promise.all([begin(), begin()])
    expect(statuses).toContain(200)
    for (const status of statuses) expect([200, 409]).toContain(status)
  }
})
