import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { betterAuth } from 'better-auth'
import { authOptions } from '../../src/api/auth-options.ts'
import { newId } from '../../src/contract/ids.ts'
import { recordAccountEvents } from '../../src/governance/people/account-events.ts'
import { waitsForLock } from '../governance/support.ts'
import { Browser, totp } from './browser.ts'
import { addKey, addOrganization, addPerson, requireFactors, sessionCookie } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/* How sessions were opened, and how keys were confirmed. access-matrix/second-factor.test.ts tests every route. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())
beforeEach(() => server.context.pool.query('delete from auth_rate_limits'))

const password = 'correct horse battery'
/** A person with a confirmed address, signed in by password in the requested number of browsers. */
async function person() {
  const email = `${newId('user').toLowerCase()}@acme.test`
  const { body } = await new Browser(server).auth('sign-up/email', { name: 'Ana', email, password })
  await server.context.pool.query('update users set email_verified = true where id = $1', [body.user.id])
  const signIn = async (): Promise<Browser> => {
    const at = new Browser(server)
    expect((await at.signIn(email, password)).status).toBe(200)
    return at
  }
  return { email, id: body.user.id as string, at: await signIn(), signIn }
}

/** A browser with a session of this person that an older version of the service has left. */
async function oldSession(userId: string) {
  const cookie = await sessionCookie(server.context, userId, undefined, 'unrecorded')
  return {
    cookie,
    send: (method: string, path: string, body?: unknown) =>
      server.call(null, method, path, body, { cookie, origin: server.base }),
  }
}

const openedWith = async (at: Browser): Promise<unknown> => {
  const { body } = await at.send('GET', '/me')
  return [body.session_opened_with, body.has_second_factor]
}
const later = (key: string): string => totp(key, Date.now() + 30_000)

async function eventsOf(organizationId: string): Promise<string[]> {
  await recordAccountEvents(server.context)
  const { rows } = await server.context.pool.query(
    'select event_type from audit_events where organization_id = $1 order by seq',
    [organizationId],
  )
  return rows.map(({ event_type }) => event_type)
}

describe('a session says how it was opened', () => {
  test('with a password, with a code as well, or with a backup code', async () => {
    const { email, at, id } = await person()
    expect(await openedWith(at)).toEqual(['password', false])
    const { key, backupCodes } = await at.enrol(password)
    expect(await openedWith(at)).toEqual(['password+totp', true])
    for (const [path, code, how] of [
      ['verify-totp', later(key), 'password+totp'],
      ['verify-backup-code', backupCodes[0], 'password+backup_code'],
    ]) {
      const half = new Browser(server)
      await half.signIn(email, password)
      expect((await half.auth(`two-factor/${path}`, { code })).status).toBe(200)
      expect(await openedWith(half)).toEqual([how, true])
    }
    const { body } = await (await oldSession(id)).send('GET', '/me')
    expect([body.session_opened_with, body.has_second_factor]).toEqual(['unrecorded', false])
    const { body: asked } = await at.send('GET', '/api/auth/get-session')
    expect(asked.session.openedWith).toBe('password+totp')
  })

  test('and neither renewal nor a new password changes that', async () => {
    for (const enrols of [false, true]) {
      const { at, id } = await person()
      if (enrols) await at.enrol(password)
      const before = await openedWith(at)
      const { pool } = server.context
      await pool.query(`update auth_sessions set expires_at = now() + interval '1 day' where user_id = $1`, [
        id,
      ])
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
    const { email, at } = await person()
    const { key } = await at.enrol(password)
    const other = new Browser(server)
    await other.signIn(email, password)
    await other.auth('two-factor/verify-totp', { code: later(key) })
    expect((await at.auth('two-factor/disable', { password })).status).toBe(200)
    expect(await openedWith(at)).toEqual(['password', false])
    expect(await openedWith(other)).toEqual(['password', false])
  })
})

describe('enrolling', () => {
  test('ends the person’s other sessions, which the audit log shows', async () => {
    const { at, signIn } = await person()
    const other = await signIn()
    const home = (await at.send('GET', '/me')).body.organization_id
    const before = (await eventsOf(home)).filter((type) => type === 'session.ended').length
    await at.enrol(password)
    expect((await other.send('GET', '/me')).status).toBe(401)
    expect((await at.send('GET', '/me')).status).toBe(200)
    const ended = (await eventsOf(home)).filter((type) => type === 'session.ended').length
    // The session that enrolled is replaced by a new one.
    expect(ended - before).toBe(2)
  })

  test('ends a session that a password opens at the same moment', async () => {
    const { email, id } = await person()
    const { pool } = server.context
    const enrolling = await pool.connect()
    try {
      await enrolling.query('begin')
      await enrolling.query('update users set two_factor_enabled = true where id = $1', [id])
      const at = new Browser(server)
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
    const { at, id } = await person()
    await at.enrol(password)
    const replace = server.context.pool.query(
      `update auth_two_factors set secret = 'x', verified = false where user_id = $1`,
      [id],
    )
    await expect(replace).rejects.toThrow('a proven second factor is not replaced')
  })
})

describe('a session without its person’s factor', () => {
  /** All endpoints of the library, from its own list. */
  const endpoints = () => {
    const { api } = betterAuth(
      authOptions(
        server.context,
        () => Promise.resolve(),
        () => {},
      ),
    )
    // Endpoints that only the service itself may call have no path.
    const all: { readonly path?: string; readonly options: { readonly method?: unknown } }[] =
      Object.values(api)
    return all.map(({ path = ':', options }) => ({
      path,
      method: [options.method].flat()[0] as string,
    }))
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
  ])

  test('can use only endpoints that prove the factor', async () => {
    const { at, id } = await person()
    await at.enrol(password)
    const old = await oldSession(id)
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
      ]),
    )
    expect((await at.send('GET', '/me')).body.user.name).toBe('Ana')
  })

  test('and does not see a secret that another session is enrolling', async () => {
    const { at, signIn } = await person()
    const other = await signIn()
    await at.auth('two-factor/enable', { password })
    const answer = await other.auth('two-factor/get-totp-uri', { password })
    expect([answer.status, answer.body.code]).toEqual([403, 'SECOND_FACTOR_REQUIRED'])
  })

  test('is replaced by one with the factor once it sends a code; each code works once', async () => {
    const { at, id } = await person()
    const { key, backupCodes } = await at.enrol(password)
    const code = later(key)
    for (const [path, sent, how] of [
      ['verify-totp', code, 'password+totp'],
      ['verify-backup-code', backupCodes[0], 'password+backup_code'],
    ]) {
      const { cookie } = await oldSession(id)
      const browser = new Browser(server)
      const proven = await browser.auth(`two-factor/${path}`, { code: sent }, { cookie })
      expect(proven.status).toBe(200)
      expect(await openedWith(browser)).toEqual([how, true])
      // Somebody else with the old cookie has no access.
      expect((await new Browser(server).send('GET', '/me', undefined, { cookie })).status).toBe(401)
    }
    const { cookie, send } = await oldSession(id)
    const again = await new Browser(server).auth('two-factor/verify-totp', { code }, { cookie })
    expect([again.status, again.body.code]).toEqual([401, 'INVALID_CODE'])
    expect((await send('GET', '/me')).body.has_second_factor).toBe(false)
  })

  test('has ten guesses at a code', async () => {
    const { at, id } = await person()
    const { key } = await at.enrol(password)
    const { send } = await oldSession(id)
    const statuses: number[] = []
    for (let guess = 0; guess < 11; guess += 1) {
      const path = guess % 2 === 0 ? 'verify-totp' : 'verify-backup-code'
      statuses.push((await send('POST', `/api/auth/two-factor/${path}`, { code: '000000' })).status)
    }
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 401), 429])
    await server.context.pool.query('delete from auth_rate_limits')
    const right = await send('POST', '/api/auth/two-factor/verify-totp', { code: later(key) })
    expect(right.status).toBe(429)
  })
})

describe('a key', () => {
  /** An organization that requires a factor, its owner, and an older session of theirs. */
  async function required() {
    const { at, id } = await person()
    const { key: appKey } = await at.enrol(password)
    const { body: acme } = await at.send('POST', '/organizations', { name: 'Acme' })
    const old = await oldSession(id)
    const make = async (send: typeof old.send, scopes: string[]) => {
      const { status, body } = await send('POST', '/api-keys', {
        name: 'k',
        scopes,
        organization_id: acme.id,
      })
      expect(status).toBe(201)
      return body as { id: string; api_key: string; needs_confirmation: boolean }
    }
    const makers = {
      old: await make(old.send, ['api_keys:*', 'runs:read']),
      at: await make((...request) => at.send(...request), ['api_keys:*', 'runs:read']),
    }
    const governance = `/organizations/${acme.id}/governance`
    return { at, id, appKey, acme, old, makers, governance, make }
  }
  const keysAt = async (at: Browser, organizationId: string) => {
    const { body } = await at.send('GET', `/api-keys?organization_id=${organizationId}`)
    return new Map<string, boolean>(
      body.data.map((each: { id: string; needs_confirmation: boolean }) => [
        each.id,
        each.needs_confirmation,
      ]),
    )
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
    // Neither a session without a factor nor any key can confirm.
    expect((await old.send('POST', confirm)).body.error.code).toBe('mfa_required')
    for (const key of [makers.old.api_key, makers.at.api_key])
      expect((await server.call(key, 'POST', confirm)).body.error.code).toBe('mfa_required')
    const { status, body } = await at.send('POST', confirm)
    expect([status, body.needs_confirmation]).toEqual([200, false])
    expect((await server.call(makers.old.api_key, 'GET', '/runs')).status).toBe(200)
    expect(await eventsOf(acme.id)).toContain('api_key.confirmed')
  })

  test('has no more confirmation than the key that made it', async () => {
    const { at, makers, governance, make } = await required()
    const by = (key: string) => (method: string, path: string, body?: unknown) =>
      server.call(key, method, path, body)
    const children = [
      await make(by(makers.old.api_key), ['runs:read']),
      await make(by(makers.at.api_key), ['runs:read']),
    ]
    await at.send('PATCH', governance, { require_mfa: true })
    const runs = await Promise.all(children.map(({ api_key: key }) => server.call(key, 'GET', '/runs')))
    expect(runs.map(({ status }) => status)).toEqual([403, 200])
    // Confirming the key that made it does not confirm it.
    await at.send('POST', `/api-keys/${makers.old.id}/confirm`)
    expect((await server.call(children[0]?.api_key ?? '', 'GET', '/runs')).status).toBe(403)
  })

  test('loses its confirmation when it gains rights without a factor', async () => {
    const { at, acme, makers, governance, old } = await required()
    const more = { scopes: ['api_keys:*', 'runs:read', 'runs:write'] }
    for (const [key, less] of [[makers.at, { scopes: ['runs:read', 'api_keys:*'] }]] as const) {
      expect((await old.send('PATCH', `/api-keys/${key.id}`, less)).body.factor_confirmed_at).not.toBeNull()
      expect((await old.send('PATCH', `/api-keys/${key.id}`, more)).body.factor_confirmed_at).toBeNull()
    }
    await at.send('PATCH', governance, { require_mfa: true })
    expect((await keysAt(at, acme.id)).get(makers.at.id)).toBe(true)
    expect((await server.call(makers.at.api_key, 'GET', '/runs')).status).toBe(403)
  })

  test('of somebody else can only be confirmed by its person', async () => {
    const { at, acme, governance } = await required()
    await at.send('PATCH', governance, { require_mfa: true })
    const { keyId } = await addPerson(server.context, acme.id, 'member')
    expect((await keysAt(at, acme.id)).get(keyId)).toBe(true)
    const { status, body } = await at.send('POST', `/api-keys/${keyId}/confirm`)
    expect([status, body.error.code]).toEqual([403, 'insufficient_role'])
  })

  test('of an agent can still ask, since the factor requirement does not apply to agents', async () => {
    const { at, id, acme, governance } = await required()
    const { secret, id: keyId } = await addKey(server.context, acme.id, id, ['agents:authorize'])
    await at.send('PATCH', governance, { require_mfa: true })
    expect((await keysAt(at, acme.id)).get(keyId)).toBe(false)
    const question = {
      agent: { name: 'a', kind: 'hook' },
      session_id: 's',
      tool_name: 'Read',
      tool_input: {},
    }
    const { status, body } = await server.call(secret, 'POST', '/authorize', question)
    expect([status, body.decision]).toEqual([200, 'allow'])
  })

  test('or session without a factor cannot require one: it would lock itself out', async () => {
    const { governance, makers, old, acme } = await required()
    const owner = await old.send('PATCH', governance, { require_mfa: true })
    expect([owner.status, owner.body.error.code]).toEqual([409, 'conflict'])
    expect(owner.body.error.message).toContain('sign in with your second factor')
    const { rows } = await server.context.pool.query('select user_id from api_keys where id = $1', [
      makers.old.id,
    ])
    const key = await addKey(server.context, acme.id, rows[0].user_id, ['governance:write'])
    const byKey = await server.call(key.secret, 'PATCH', governance, { require_mfa: true })
    expect([byKey.status, byKey.body.error.code]).toEqual([409, 'conflict'])
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
  const headers = {
    cookie: await sessionCookie(context, userId),
    origin: server.base,
    'idempotency-key': 'one',
  }
  const rule = { name: 'No mail', verdict: 'deny', tools: ['mail_send'] }
  const make = () => server.call(null, 'POST', `/organizations/${id}/rules`, rule, headers)
  expect((await make()).status).toBe(201)
  expect((await make()).status).toBe(201)
  await requireFactors(context, id)
  expect((await make()).body.error.code).toBe('mfa_required')
})
