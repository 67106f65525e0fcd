import { describe, expect, test } from '@jest/globals'
import type { SmtpSink } from '../support/smtp-sink.ts'
import { Browser, totp } from './browser.ts'
import type { TestServer } from './server.ts'
import {
  password,
  signedUp,
  confirmedPerson,
  eventTypesOf,
  mailTo,
  tokenIn,
  useMailingServer,
} from './signed-in.ts'

/* How people change their password and second factor. */

let sink: SmtpSink
let server: TestServer
useMailingServer((...both) => ([server, sink] = both))

const browser = () => new Browser(server)

describe('passwords', () => {
  test('a mailed token sets a new one, once, and ends every session', async () => {
    const { at, email } = await signedUp(server)
    const organization = (await at.send('GET', '/me')).body.organization_id
    expect((await browser().auth('request-password-reset', { email })).status).toBe(200)
    const token = tokenIn(await mailTo(sink, email, 'A new password'))
    const set = (newPassword: string) => browser().auth('reset-password', { token, newPassword })
    expect((await set('a better password')).status).toBe(200)
    expect((await set('an even better one')).status).toBe(400)
    expect((await at.send('GET', '/me')).status).toBe(401)
    expect((await browser().signIn(email, password)).status).toBe(401)
    expect((await browser().signIn(email, 'a better password')).status).toBe(200)
    expect(await eventTypesOf(server, organization)).toContain('user.password_changed')
  })

  test('asking for one gives the same answer with or without an account', async () => {
    const { email } = await signedUp(server)
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
    const { at, email } = await confirmedPerson(server)
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

    const events = await eventTypesOf(server, organization)
    expect(events).toContain('mfa.enabled')
    expect(events).toContain('mfa.backup_codes_changed')
    // Sign-ins that stop after the password open no session. The four events are the first sign-in, the enrolment,
    // which replaces the session, and two sign-ins with a code.
    expect(events.filter((type) => type === 'session.started')).toHaveLength(4)
  })

  test('its secret and codes are stored nowhere in plain text', async () => {
    const { at, id } = await confirmedPerson(server)
    const { key, backupCodes } = await at.enrol(password)
    const { rows } = await server.context.pool.query('select * from auth_two_factors where user_id = $1', [
      id,
    ])
    const kept = JSON.stringify(rows)
    for (const secret of [key, ...backupCodes]) expect(kept).not.toContain(secret)
  })

  test('where it is required, a member without it is refused, with key or session, until enrolled', async () => {
    const { at } = await confirmedPerson(server)
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
    // Other organizations still work, and the person can see where they are a member.
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
