import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-server.ts'
import type { SmtpSink } from '../support/smtp-sink.ts'
import { until } from '../stack/until.ts'
import { Browser, totp } from './browser.ts'
import { waitsForLock } from '../governance/support.ts'
import { addKey, addOrganization } from './fixtures.ts'
import type { TestServer } from './server.ts'
import { useMailingServer } from './signed-in.ts'

/*
 * Somebody who signs up with another person's address must lose everything when the owner of that address confirms it.
 */

let sink: SmtpSink
let server: TestServer
useMailingServer((...both) => ([server, sink] = both))

/** Plays GitHub, and receives the requests of webhooks. */
let stranger: ScriptedServer
beforeAll(async () => {
  stranger = await startScriptedServer()
  stranger.answer = () => ({ status: 200, body: { login: 'stranger' } })
})
afterAll(() => stranger?.close())

/** Requests that connect something for later, in the organization `organizationId` of the person `id`. */
const connecting = (organizationId: string, id: string) => ({
  'a webhook': {
    method: 'POST',
    path: `/organizations/${organizationId}/webhooks`,
    body: { url: `${stranger.url}/hook`, events: ['run.completed'] },
  },
  'a connection': {
    method: 'POST',
    path: '/tools/github_get_issue/connect',
    body: { scope: 'personal', credential: { token: 'ghp_x', base_url: stranger.url } },
  },
  'a Slack account': {
    method: 'PUT',
    path: `/organizations/${organizationId}/members/${id}/accounts/slack`,
    body: { external_id: 'U0STRANGER' },
  },
})
/** How many things are connected for this person. */
const connectedOf = async (id: string): Promise<number> => {
  const { rows } = await server.context.pool.query<{ count: number }>(
    `select ((select count(*) from webhooks where created_by = $1)
           + (select count(*) from connections where created_by = $1)
           + (select count(*) from memberships where user_id = $1 and slack_account is not null))::int as count`,
    [id],
  )
  return rows[0]?.count ?? -1
}
const setConfirmed = (id: string, is: boolean) =>
  server.context.pool.query('update users set email_verified = $2 where id = $1', [id, is])

const password = 'correct horse battery'
const own = 'chosen by the owner'
let made = 0
/** Signs an attacker up with a victim's address. Returns a browser that is signed in to this account. */
async function hijack() {
  const email = `victim${(made += 1)}@corp.test`
  const at = new Browser(server)
  const { body } = await at.auth('sign-up/email', { name: 'Vic', email, password })
  await at.signIn(email, password)
  return { email, id: body.user.id as string, at }
}
async function tokenFor(email: string, subject: string, since = 0): Promise<string> {
  const find = () =>
    sink.deliveries.slice(since).find((mail) => mail.recipients.includes(email) && mail.subject === subject)
  await until(`a mail to ${email}`, async () => find() !== undefined)
  const text = (find()?.raw ?? '').replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=')
  return /token=([\w.-]+)/.exec(text)?.[1] ?? ''
}
async function reset(email: string): Promise<void> {
  const since = sink.deliveries.length
  await new Browser(server).auth('request-password-reset', { email })
  const token = await tokenFor(email, 'A new password', since)
  const { status } = await new Browser(server).auth('reset-password', { token, newPassword: own })
  expect(status).toBe(200)
}
const follow = async (email: string, at: Browser) =>
  at.send('GET', `/api/auth/verify-email?token=${await tokenFor(email, 'Confirm your address')}`)
const proofs = {
  'a reset by mail': reset,
  'the mailed link': (email: string) => follow(email, new Browser(server)),
}

describe('before the address is confirmed', () => {
  test('keys, second factors and invitations are refused', async () => {
    const { at } = await hijack()
    const key = await at.send('POST', '/api-keys', { name: 'later', scopes: ['runs:read'] })
    expect([key.status, key.body.error.code]).toEqual([409, 'conflict'])
    expect(key.body.error.message).toMatch(/^confirm your address first/)
    const factor = await at.auth('two-factor/enable', { password })
    expect([factor.status, factor.body.code]).toEqual([403, 'EMAIL_NOT_VERIFIED'])
    const { body: acme } = await at.send('POST', '/organizations', { name: 'Acme' })
    const invitation = await at.send('POST', `/organizations/${acme.id}/invitations`, {
      email: 'x@acme.test',
    })
    expect([invitation.status, invitation.body.error.code]).toEqual([409, 'conflict'])
    const { rowCount } = await server.context.pool.query(
      'select 1 from invitations where organization_id = $1',
      [acme.id],
    )
    expect(rowCount).toBe(0)
  })

  test('webhooks, connections and Slack accounts are refused, and made afterwards', async () => {
    const { at, id } = await hijack()
    const organizationId = (await at.send('GET', '/me')).body.organization_id
    const requests = Object.entries(connecting(organizationId, id))
    for (const [what, { method, path, body }] of requests) {
      const { status, body: answer } = await at.send(method, path, body)
      expect([what, status, answer.error.code]).toEqual([what, 409, 'conflict'])
      expect(answer.error.message).toMatch(/^confirm your address first/)
    }
    expect(await connectedOf(id)).toBe(0)
    await setConfirmed(id, true)
    for (const [what, { method, path, body }] of requests)
      expect([what, (await at.send(method, path, body)).status]).toEqual([what, method === 'PUT' ? 200 : 201])
    expect(await connectedOf(id)).toBe(3)
  })

  test('no webhook is changed, but it can be deleted', async () => {
    const { at, id } = await hijack()
    const organizationId = (await at.send('GET', '/me')).body.organization_id
    await setConfirmed(id, true)
    const { method, path, body } = connecting(organizationId, id)['a webhook']
    const { body: webhook } = await at.send(method, path, body)
    await setConfirmed(id, false)
    const one = `${path}/${webhook.id}`
    expect((await at.send('PATCH', one, { url: `${stranger.url}/other` })).status).toBe(409)
    expect((await at.send('POST', `${one}/rotate-secret`, {})).status).toBe(409)
    expect((await at.send('GET', one)).body.url).toBe(`${stranger.url}/hook`)
    expect((await at.send('DELETE', one)).status).toBe(204)
  })

  test.each(['two-factor/enable/', '/two-factor/enable', 'two-factor%2Fenable', 'Two-Factor/Enable'])(
    'nor by another spelling: %s',
    async (path) => {
      const { at, id } = await hijack()
      expect((await at.auth(path, { password })).status).not.toBe(200)
      const { rowCount } = await server.context.pool.query(
        'select 1 from auth_two_factors where user_id = $1',
        [id],
      )
      expect(rowCount).toBe(0)
    },
  )
})

describe('while the address is being confirmed', () => {
  const requests = {
    'a key': () => ({ method: 'POST', path: '/api-keys', body: { name: 'later', scopes: ['runs:read'] } }),
    'an invitation': (organizationId: string) => ({
      method: 'POST',
      path: `/organizations/${organizationId}/invitations`,
      body: { email: 'x@acme.test' },
    }),
    'a webhook': (organizationId: string, id: string) => connecting(organizationId, id)['a webhook'],
    'a connection': (organizationId: string, id: string) => connecting(organizationId, id)['a connection'],
    'a Slack account': (organizationId: string, id: string) =>
      connecting(organizationId, id)['a Slack account'],
  }
  test.each(Object.entries(requests))('%s is refused', async (_, requestIn) => {
    const { at, id } = await hijack()
    const { body: acme } = await at.send('POST', '/organizations', { name: 'Acme' })
    const { method, path, body } = requestIn(acme.id, id)
    const { pool } = server.context
    const proof = await pool.connect()
    try {
      await proof.query('begin')
      await proof.query('update users set email_verified = true where id = $1', [id])
      const answer = at.send(method, path, body)
      await waitsForLock(server.adminUrl)
      await proof.query('delete from auth_sessions where user_id = $1', [id])
      await proof.query('commit')
      expect((await answer).status).toBe(409)
    } finally {
      proof.release(true)
    }
    const { rows } = await pool.query(
      `select (select count(*)::int from api_keys where user_id = $1) as keys,
              (select count(*)::int from invitations where invited_by = $1) as invitations`,
      [id],
    )
    expect(rows).toEqual([{ keys: 0, invitations: 0 }])
    expect(await connectedOf(id)).toBe(0)
  })
})

describe.each(Object.entries(proofs))('%s confirms it, and', (_, prove) => {
  test('confirming ends earlier sessions, half sign-ins, factors, trusted devices and keys, audited', async () => {
    const { at, email, id } = await hijack()
    const { context } = server
    const other = await addOrganization(context)
    const key = await addKey(context, other.id, id, ['runs:read'])
    await context.pool.query(
      `insert into auth_two_factors (id, user_id, secret, backup_codes) values ($1, $1, 'x', 'x')`,
      [id],
    )
    await context.pool.query('update users set two_factor_enabled = true where id = $1', [id])
    const trusted =
      'insert into auth_verifications (id, identifier, value, expires_at) values ($1, $2, $3, $4)'
    await context.pool.query(trusted, [id, 'trust-device-x', id, new Date(Date.now() + 60_000)])
    await prove(email)
    expect((await at.send('GET', '/me')).status).toBe(401)
    expect((await server.call(key.secret, 'GET', '/me')).status).toBe(401)
    const { rows } = await context.pool.query(
      `select (select count(*)::int from auth_two_factors where user_id = u.id) as factors,
              (select count(*)::int from auth_verifications where value = u.id) as waiting,
              u.two_factor_enabled, u.email_verified from users u where id = $1`,
      [id],
    )
    expect(rows).toEqual([{ factors: 0, waiting: 0, two_factor_enabled: false, email_verified: true }])
    // Account events are recorded by the next request that changes an account.
    await at.auth('sign-out', {})
    const entries = await context.db
      .selectFrom('audit_events')
      .select('canonical')
      .where('organization_id', '=', other.id)
      .where('event_type', '=', 'api_key.revoked')
      .execute()
    expect(entries.map((entry) => JSON.parse(entry.canonical).metadata.key_id)).toEqual([key.id])
  })

  test('it does so once: later sessions and keys stay', async () => {
    const { email, id } = await hijack()
    await prove(email)
    const { context } = server
    const { id: organization } = await addOrganization(context)
    const key = await addKey(context, organization, id, ['runs:read'])
    await reset(email)
    const at = new Browser(server)
    expect((await at.signIn(email, own)).status).toBe(200)
    expect((await server.call(key.secret, 'GET', '/me')).status).toBe(200)
    const { key: factor } = await at.enrol(own)
    expect(factor).not.toBe('')
    expect((await at.send('POST', '/api-keys', { name: 'mine', scopes: ['runs:read'] })).status).toBe(201)
    await reset(email)
    expect((await new Browser(server).signIn(email, own)).body.twoFactorRedirect).toBe(true)
  })
})

test('the browser that follows the link stays signed in', async () => {
  const { at, email } = await hijack()
  const elsewhere = new Browser(server)
  await elsewhere.signIn(email, password)
  expect((await follow(email, at)).status).toBe(200)
  expect((await at.send('GET', '/me')).body.user.email_verified).toBe(true)
  expect((await elsewhere.send('GET', '/me')).status).toBe(401)
})

test('a reset ends a sign-in that waits for its second factor', async () => {
  const { at, email } = await hijack()
  await follow(email, at)
  const { key } = await at.enrol(password)
  const half = new Browser(server)
  expect((await half.signIn(email, password)).body.twoFactorRedirect).toBe(true)
  await reset(email)
  expect((await half.auth('two-factor/verify-totp', { code: totp(key, Date.now() + 30_000) })).status).toBe(
    401,
  )
})
