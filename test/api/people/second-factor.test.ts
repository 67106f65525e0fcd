import { randomBytes } from 'node:crypto'
import { afterEach, describe, expect, test } from '@jest/globals'
import { betterAuth } from 'better-auth'
import { authOptions } from '../../../src/api/auth-options.ts'
import { sessionSecrets } from '../../../src/shared/session-secrets.ts'
import type { SmtpSink } from '../../support/smtp-sink.ts'
import { waitsForLock } from '../../governance/support.ts'
import {
  confirmedPerson,
  eventTypesOf,
  laterCode,
  oldSession,
  password,
  resetOf,
  signedUp,
  useMailingServer,
} from '../signed-in.ts'
import { startBeside, type TestServer } from '../server.ts'
import { Browser } from '../browser.ts'
import { codeOf } from '../use-server.ts'
import { addKey, addOrganization, addPerson, aRule, requireFactors, sessionCookie } from '../fixtures.ts'

let sink: SmtpSink
let server: TestServer
useMailingServer((...both) => ([server, sink] = both))

const browser = () => new Browser(server)

describe('passwords', () => {
  test('a mailed token sets a new one, once, and ends every session', async () => {
    const { at, email } = await signedUp(server)
    const organization = (await at.send('GET', '/me')).body.organization_id
    const set = await resetOf(server, sink, email)
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
    const { at, halfSignIn } = await confirmedPerson(server)
    const organization = (await at.send('GET', '/me')).body.organization_id
    const { key, backupCodes } = await at.enrol(password)
    expect((await at.send('GET', '/me')).body.user.second_factor).toBe(true)

    const half = await halfSignIn()
    expect((await half.send('GET', '/me')).status).toBe(401)
    expect((await half.auth('two-factor/verify-totp', { code: '000000' })).status).toBe(401)
    expect((await half.auth('two-factor/verify-totp', { code: laterCode(key) })).status).toBe(200)
    expect((await half.send('GET', '/me')).status).toBe(200)

    for (const expected of [200, 401]) {
      const at = await halfSignIn()
      expect((await at.auth('two-factor/verify-backup-code', { code: backupCodes[0] })).status).toBe(expected)
    }

    const events = await eventTypesOf(server, organization)
    expect(events).toEqual(expect.arrayContaining(['mfa.enabled', 'mfa.backup_codes_changed']))
    // Sign-ins that stop after the password open no session. The four events are the first sign-in, the enrolment,
    // which replaces the session, and two sign-ins with a code.
    expect(events.filter((type) => type === 'session.started')).toHaveLength(4)
  })

  test('its secret and codes are stored nowhere in plain text', async () => {
    const { at, id } = await confirmedPerson(server)
    const { key, backupCodes } = await at.enrol(password)
    const { pool } = server.context
    const { rows } = await pool.query('select * from auth_two_factors where user_id = $1', [id])
    const kept = JSON.stringify(rows)
    for (const secret of [key, ...backupCodes]) expect(kept).not.toContain(secret)
  })

  test('where it is required, a member without it is refused, with key or session, until enrolled', async () => {
    const { at } = await confirmedPerson(server)
    const { body: acme } = await at.send('POST', '/organizations', { name: 'Acme' })
    const here = { 'x-organization-id': acme.id }
    const wanted = { name: 'mine', scopes: ['runs:read'], organization_id: acme.id }
    const { body: key } = await at.send('POST', '/api-keys', wanted)
    const governance = `/organizations/${acme.id}/governance`
    expect(codeOf(await at.send('PATCH', governance, { require_mfa: true }))).toBe('409 conflict')
    await at.enrol(password)
    expect((await at.send('PATCH', governance, { require_mfa: true })).status).toBe(200)
    expect((await at.send('GET', '/runs', undefined, here)).status).toBe(200)
    await at.auth('two-factor/disable', { password })
    const refused = await at.send('GET', '/runs', undefined, here)
    expect(codeOf(refused)).toBe('403 mfa_required')
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

const openedWith = async (at: Browser): Promise<unknown> => {
  const { body } = await at.send('GET', '/me')
  return [body.session_opened_with, body.has_second_factor]
}

describe('a session says how it was opened', () => {
  test('with a password, with a code as well, or with a backup code', async () => {
    const { at, id, halfSignIn } = await confirmedPerson(server)
    expect(await openedWith(at)).toEqual(['password', false])
    const { key, backupCodes } = await at.enrol(password)
    expect(await openedWith(at)).toEqual(['password+totp', true])
    for (const [path, code, how] of [
      ['verify-totp', laterCode(key), 'password+totp'],
      ['verify-backup-code', backupCodes[0], 'password+backup_code'],
    ]) {
      const half = await halfSignIn()
      expect((await half.auth(`two-factor/${path}`, { code })).status).toBe(200)
      expect(await openedWith(half)).toEqual([how, true])
    }
    const { body } = await (await oldSession(server, id)).send('GET', '/me')
    expect([body.session_opened_with, body.has_second_factor]).toEqual(['unrecorded', false])
    const { body: asked } = await at.send('GET', '/api/auth/get-session')
    expect(asked.session.openedWith).toBe('password+totp')
  })

  test('and neither renewal nor a new password changes that', async () => {
    for (const enrols of [false, true]) {
      const { at, id } = await confirmedPerson(server)
      if (enrols) await at.enrol(password)
      const before = await openedWith(at)
      const { pool } = server.context
      const oneDay = `update auth_sessions set expires_at = now() + interval '1 day' where user_id = $1`
      await pool.query(oneDay, [id])
      expect((await at.send('GET', '/api/auth/get-session')).status).toBe(200)
      const { rows } = await pool.query(
        `select expires_at > now() + interval '6 days' as renewed from auth_sessions where user_id = $1`,
        [id],
      )
      expect(rows).toEqual([{ renewed: true }])
      expect(await openedWith(at)).toEqual(before)
      const change = { currentPassword: password, newPassword: 'another password' }
      expect((await at.auth('change-password', change)).status).toBe(200)
      expect(await openedWith(at)).toEqual(before)
    }
  })

  test('and after the factor is removed, no session has it', async () => {
    const { at, halfSignIn } = await confirmedPerson(server)
    const { key } = await at.enrol(password)
    const other = await halfSignIn()
    await other.auth('two-factor/verify-totp', { code: laterCode(key) })
    expect((await at.auth('two-factor/disable', { password })).status).toBe(200)
    expect(await openedWith(at)).toEqual(['password', false])
    expect(await openedWith(other)).toEqual(['password', false])
  })
})

describe('enrolling', () => {
  test('ends the person’s other sessions, which the audit log shows', async () => {
    const { at, signIn } = await confirmedPerson(server)
    const other = await signIn()
    const home = (await at.send('GET', '/me')).body.organization_id
    const ended = async () =>
      (await eventTypesOf(server, home)).filter((type) => type === 'session.ended').length
    const before = await ended()
    await at.enrol(password)
    expect((await other.send('GET', '/me')).status).toBe(401)
    expect((await at.send('GET', '/me')).status).toBe(200)
    // Two sessions end: the other one, and the session that enrolled, which is replaced by a new one.
    expect((await ended()) - before).toBe(2)
  })

  test('ends a session that a password opens at the same moment', async () => {
    const { email, id } = await confirmedPerson(server)
    const { pool } = server.context
    const enrolling = await pool.connect()
    try {
      await enrolling.query('begin')
      await enrolling.query('update users set two_factor_enabled = true where id = $1', [id])
      const at = browser()
      const answer = at.signIn(email, password)
      await waitsForLock(server.adminUrl)
      await enrolling.query('commit')
      const { status, body } = await answer
      expect([status, body.code]).toEqual([401, 'SECOND_FACTOR_ENROLLED'])
      expect((await at.send('GET', '/me')).status).toBe(401)
    } finally {
      enrolling.release(true)
    }
  })

  test('cannot replace a proven secret with another one', async () => {
    const { at, id } = await confirmedPerson(server)
    await at.enrol(password)
    const replace = server.context.pool.query(
      `update auth_two_factors set secret = 'x', verified = false where user_id = $1`,
      [id],
    )
    await expect(replace).rejects.toThrow('a proven second factor is not replaced')
  })
})

describe('a session without its person’s factor', () => {
  /** All endpoints of the sign-in library, from the library's own list. */
  const endpoints = () => {
    const { api } = betterAuth(authOptions(server.context, async () => {}, () => {}, () => false)) // prettier-ignore
    const all: { readonly path?: string; readonly options: { readonly method?: unknown } }[] =
      Object.values(api)
    // Endpoints that only the service itself may call have no path.
    return all.map(({ path = ':', options }) => ({ path, method: [options.method].flat()[0] as string }))
  }
  const open = new Set([
    '/sign-in/email',
    '/sign-up/email',
    '/sign-out',
    '/get-session',
    '/two-factor/verify-totp',
    '/two-factor/verify-backup-code',
    '/request-password-reset',
    '/reset-password',
    '/send-verification-email',
    '/verify-email',
    // They read no session but to link it, for which it needs the factor.
    '/sign-in/provider',
    '/sign-in/provider/answer',
    // It reads a token of the provider.
    '/sign-in/provider/logout',
    '/sign-in/provider/assertion',
    // They need the passkey.
    '/passkey/begin-sign-in',
    '/passkey/sign-in',
  ])

  test('can use only endpoints that prove the factor', async () => {
    const { at, id } = await confirmedPerson(server)
    await at.enrol(password)
    const old = await oldSession(server, id)
    const refused: string[] = []
    for (const { path, method } of endpoints()) {
      if (open.has(path) || path.includes(':')) continue
      await server.context.pool.query('delete from auth_rate_limits')
      const body = { password, currentPassword: password, newPassword: 'another password', name: 'Eve' }
      const answer = await old.send(method, `/api/auth${path}`, method === 'GET' ? undefined : body)
      if (answer.status === 404) continue
      expect([path, answer.status, answer.body.code]).toEqual([path, 403, 'SECOND_FACTOR_REQUIRED'])
      refused.push(path)
    }
    expect(refused).toEqual(
      expect.arrayContaining([
        '/change-password',
        '/update-user',
        '/list-sessions',
        '/revoke-session',
        '/revoke-sessions',
        '/revoke-other-sessions',
        '/two-factor/enable',
        '/two-factor/disable',
        '/two-factor/get-totp-uri',
        '/two-factor/generate-backup-codes',
        '/passkey/list',
        '/passkey/begin',
        '/passkey/add',
        '/passkey/rename',
        '/passkey/remove',
      ]),
    )
    expect((await at.send('GET', '/me')).body.user.name).toBe('Ana')
  })

  test('and does not see a secret that another session is enrolling', async () => {
    const { at, signIn } = await confirmedPerson(server)
    const other = await signIn()
    await at.auth('two-factor/enable', { password })
    const answer = await other.auth('two-factor/get-totp-uri', { password })
    expect([answer.status, answer.body.code]).toEqual([403, 'SECOND_FACTOR_REQUIRED'])
  })

  test('is replaced by one with the factor once it sends a code; each code works once', async () => {
    const { at, id } = await confirmedPerson(server)
    const { key, backupCodes } = await at.enrol(password)
    const code = laterCode(key)
    for (const [path, sent, how] of [
      ['verify-totp', code, 'password+totp'],
      ['verify-backup-code', backupCodes[0], 'password+backup_code'],
    ]) {
      const { cookie } = await oldSession(server, id)
      const at = browser()
      expect((await at.auth(`two-factor/${path}`, { code: sent }, { cookie })).status).toBe(200)
      expect(await openedWith(at)).toEqual([how, true])
      // The old cookie gives nobody else access.
      expect((await browser().send('GET', '/me', undefined, { cookie })).status).toBe(401)
    }
    const { cookie, send } = await oldSession(server, id)
    const again = await browser().auth('two-factor/verify-totp', { code }, { cookie })
    expect([again.status, again.body.code]).toEqual([401, 'INVALID_CODE'])
    expect((await send('GET', '/me')).body.has_second_factor).toBe(false)
  })

  test('has ten guesses at a code', async () => {
    const { at, id } = await confirmedPerson(server)
    const { key } = await at.enrol(password)
    const { send } = await oldSession(server, id)
    const statuses: number[] = []
    for (let guess = 0; guess < 11; guess += 1) {
      const path = guess % 2 === 0 ? 'verify-totp' : 'verify-backup-code'
      statuses.push((await send('POST', `/api/auth/two-factor/${path}`, { code: '000000' })).status)
    }
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 401), 429])
    await server.context.pool.query('delete from auth_rate_limits')
    expect((await send('POST', '/api/auth/two-factor/verify-totp', { code: laterCode(key) })).status).toBe(
      429,
    )
  })
})

describe('a key', () => {
  /** An organization that requires a second factor, its owner, and an older session of the owner. */
  async function required() {
    const { at, id } = await confirmedPerson(server)
    const { key: appKey } = await at.enrol(password)
    const { body: acme } = await at.send('POST', '/organizations', { name: 'Acme' })
    const old = await oldSession(server, id)
    const make = async (send: typeof old.send, ...scopes: string[]) => {
      const { status, body } = await send('POST', '/api-keys', {
        name: 'k',
        scopes,
        organization_id: acme.id,
      })
      expect(status).toBe(201)
      return body as { id: string; api_key: string; needs_confirmation: boolean }
    }
    const makers = {
      old: await make(old.send, 'api_keys:*', 'runs:read'),
      at: await make((...request) => at.send(...request), 'api_keys:*', 'runs:read'),
    }
    const governance = `/organizations/${acme.id}/governance`
    return { at, id, appKey, acme, old, makers, governance, make }
  }
  const keysAt = async (at: Browser, organizationId: string) => {
    const { body } = await at.send('GET', `/api-keys?organization_id=${organizationId}`)
    const keys: { id: string; needs_confirmation: boolean }[] = body.data
    return new Map(keys.map((key) => [key.id, key.needs_confirmation]))
  }

  test('made without a factor is listed, but refused until its person confirms it with one', async () => {
    const { at, acme, makers, governance, old } = await required()
    expect([...(await keysAt(at, acme.id)).values()]).toEqual([false, false])
    expect((await at.send('PATCH', governance, { require_mfa: true })).status).toBe(200)
    expect(await keysAt(at, acme.id)).toEqual(new Map([[makers.at.id, false], [makers.old.id, true]])) // prettier-ignore

    for (const path of ['/runs', '/me', '/scopes']) {
      const { status, body } = await server.call(makers.old.api_key, 'GET', path)
      expect([path, status, body.error.code]).toEqual([path, 403, 'mfa_required'])
      expect(body.error.message).toContain('/confirm')
      expect((await server.call(makers.at.api_key, 'GET', path)).status).toBe(200)
    }
    const confirm = `/api-keys/${makers.old.id}/confirm`
    // A session without a second factor cannot confirm a key, and no key can.
    expect((await old.send('POST', confirm)).body.error.code).toBe('mfa_required')
    for (const key of [makers.old.api_key, makers.at.api_key])
      expect((await server.call(key, 'POST', confirm)).body.error.code).toBe('mfa_required')
    const { status, body } = await at.send('POST', confirm)
    expect([status, body.needs_confirmation]).toEqual([200, false])
    expect((await server.call(makers.old.api_key, 'GET', '/runs')).status).toBe(200)
    expect(await eventTypesOf(server, acme.id)).toContain('api_key.confirmed')
  })

  test('has no more confirmation than the key that made it', async () => {
    const { at, makers, governance, make } = await required()
    const by = (key: string) => (method: string, path: string, body?: unknown) =>
      server.call(key, method, path, body)
    const children = [
      await make(by(makers.old.api_key), 'runs:read'),
      await make(by(makers.at.api_key), 'runs:read'),
    ]
    await at.send('PATCH', governance, { require_mfa: true })
    const runs = await Promise.all(children.map(({ api_key: key }) => server.call(key, 'GET', '/runs')))
    expect(runs.map(({ status }) => status)).toEqual([403, 200])
    // A key that another key made is not confirmed when that other key is confirmed later.
    await at.send('POST', `/api-keys/${makers.old.id}/confirm`)
    expect((await server.call(children[0]?.api_key ?? '', 'GET', '/runs')).status).toBe(403)
  })

  test('loses its confirmation when it gains rights without a factor', async () => {
    const { at, acme, makers, governance, old } = await required()
    const more = { scopes: ['api_keys:*', 'runs:read', 'runs:write'] }
    const same = { scopes: ['runs:read', 'api_keys:*'] }
    const path = `/api-keys/${makers.at.id}`
    expect((await old.send('PATCH', path, same)).body.factor_confirmed_at).not.toBeNull()
    expect((await old.send('PATCH', path, more)).body.factor_confirmed_at).toBeNull()
    await at.send('PATCH', governance, { require_mfa: true })
    expect((await keysAt(at, acme.id)).get(makers.at.id)).toBe(true)
    expect((await server.call(makers.at.api_key, 'GET', '/runs')).status).toBe(403)
  })

  test('of somebody else can only be confirmed by its person', async () => {
    const { at, acme, governance } = await required()
    await at.send('PATCH', governance, { require_mfa: true })
    const { keyId } = await addPerson(server.context, acme.id, 'member')
    expect((await keysAt(at, acme.id)).get(keyId)).toBe(true)
    expect(codeOf(await at.send('POST', `/api-keys/${keyId}/confirm`))).toBe('403 insufficient_role')
  })

  test('of an agent can still ask, since the factor requirement does not apply to agents', async () => {
    const { at, id, acme, governance } = await required()
    const { secret, id: keyId } = await addKey(server.context, acme.id, id, ['agents:authorize'])
    await at.send('PATCH', governance, { require_mfa: true })
    expect((await keysAt(at, acme.id)).get(keyId)).toBe(false)
    const agent = { name: 'a', kind: 'hook' }
    const question = { agent, session_id: 's', tool_name: 'Read', tool_input: {} }
    const { status, body } = await server.call(secret, 'POST', '/authorize', question)
    expect([status, body.decision]).toEqual([200, 'allow'])
  })

  test('or session without a factor cannot require one: it would lock itself out', async () => {
    const { governance, id, old, acme } = await required()
    const owner = await old.send('PATCH', governance, { require_mfa: true })
    expect(codeOf(owner)).toBe('409 conflict')
    expect(owner.body.error.message).toContain('sign in with your second factor')
    const key = await addKey(server.context, acme.id, id, ['governance:write'])
    const byKey = await server.call(key.secret, 'PATCH', governance, { require_mfa: true })
    expect(codeOf(byKey)).toBe('409 conflict')
    expect(byKey.body.error.message).toContain('confirm your key')
  })

  test('of a first start counts as made without a factor', async () => {
    const { rows } = await server.context.pool.query(
      `select count(*)::int as n from api_keys where name = 'bootstrap' and factor_confirmed_at is null`,
    )
    expect(rows[0].n).toBe(5)
  })
})

test('a stored idempotent answer is not given to a session without a factor', async () => {
  const { context } = server
  const { id } = await addOrganization(context)
  const { userId } = await addPerson(context, id, 'admin')
  const headers = { cookie: await sessionCookie(context, userId), 'idempotency-key': 'one' }
  const make = () => browser().send('POST', `/organizations/${id}/rules`, aRule, headers)
  expect((await make()).status).toBe(201)
  expect((await make()).status).toBe(201)
  await requireFactors(context, id)
  expect((await make()).body.error.code).toBe('mfa_required')
})

describe('after SESSION_SECRET_KEY has changed', () => {
  const running: TestServer[] = []
  afterEach(() => Promise.all(running.splice(0).map((each) => each.close())))

  /** An API process with these values of SESSION_SECRET_KEY and SESSION_SECRET_KEY_OLD. */
  async function withKeys(
    current: string,
    old: readonly string[] = [],
    keys = server.context.config.encryptionKeys,
  ) {
    const started = await startBeside(server, sessionSecrets(current, old, keys))
    running.push(started)
    return started
  }

  /** Signs in, and returns the status of the answer to the second factor. */
  async function prove(server: TestServer, email: string, way: string, code = ''): Promise<number> {
    const at = new Browser(server)
    expect((await at.signIn(email, password)).body).toMatchObject({ twoFactorRedirect: true })
    return (await at.auth(`two-factor/verify-${way}`, { code })).status
  }

  const [second, third] = ['b'.repeat(40), 'c'.repeat(40)] as const
  const elsewhere = [randomBytes(32)] as const

  test('earlier keys still open second factors, and new ones use the new key', async () => {
    const { at, email } = await confirmedPerson(server)
    const { backupCodes } = await at.enrol(password)
    // The key that was derived from the encryption key counts as an earlier one.
    const rotated = await withKeys(second)
    expect(await prove(rotated, email, 'backup-code', backupCodes[0])).toBe(200)
    // The remaining backup codes were encrypted again, with the new key.
    expect(await prove(await withKeys(third, [second]), email, 'backup-code', backupCodes[1])).toBe(200)

    const { at: other, email: another } = await confirmedPerson(rotated)
    const { key } = await other.enrol(password)
    const code = laterCode(key)
    expect(await prove(await withKeys(third, [], elsewhere), another, 'totp', code)).toBe(500)
    expect(await prove(await withKeys(third, [second], elsewhere), another, 'totp', code)).toBe(200)
  })
})
