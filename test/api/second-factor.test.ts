import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { betterAuth } from 'better-auth'
import { authOptions } from '../../src/api/auth-options.ts'
import { waitsForLock } from '../governance/support.ts'
import { Browser, totp } from './browser.ts'
import { startTestServer, type TestServer } from './server.ts'
import { password, confirmedPerson, oldSession, eventTypesOf } from './signed-in.ts'

/* How a session records the method by which it was opened. access-matrix/second-factor.test.ts tests every route. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())
beforeEach(() => server.context.pool.query('delete from auth_rate_limits'))

const openedWith = async (at: Browser): Promise<unknown> => {
  const { body } = await at.send('GET', '/me')
  return [body.session_opened_with, body.has_second_factor]
}
const later = (key: string): string => totp(key, Date.now() + 30_000)

describe('a session says how it was opened', () => {
  test('with a password, with a code as well, or with a backup code', async () => {
    const { email, at, id } = await confirmedPerson(server)
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
    const { email, at } = await confirmedPerson(server)
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
    const { at, signIn } = await confirmedPerson(server)
    const other = await signIn()
    const home = (await at.send('GET', '/me')).body.organization_id
    const before = (await eventTypesOf(server, home)).filter((type) => type === 'session.ended').length
    await at.enrol(password)
    expect((await other.send('GET', '/me')).status).toBe(401)
    expect((await at.send('GET', '/me')).status).toBe(200)
    const ended = (await eventTypesOf(server, home)).filter((type) => type === 'session.ended').length
    // Two sessions end: the other one, and the session that enrolled, which is replaced by a new one.
    expect(ended - before).toBe(2)
  })

  test('ends a session that a password opens at the same moment', async () => {
    const { email, id } = await confirmedPerson(server)
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
    const code = later(key)
    for (const [path, sent, how] of [
      ['verify-totp', code, 'password+totp'],
      ['verify-backup-code', backupCodes[0], 'password+backup_code'],
    ]) {
      const { cookie } = await oldSession(server, id)
      const browser = new Browser(server)
      const proven = await browser.auth(`two-factor/${path}`, { code: sent }, { cookie })
      expect(proven.status).toBe(200)
      expect(await openedWith(browser)).toEqual([how, true])
      // The old cookie gives nobody else access.
      expect((await new Browser(server).send('GET', '/me', undefined, { cookie })).status).toBe(401)
    }
    const { cookie, send } = await oldSession(server, id)
    const again = await new Browser(server).auth('two-factor/verify-totp', { code }, { cookie })
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
    const right = await send('POST', '/api/auth/two-factor/verify-totp', { code: later(key) })
    expect(right.status).toBe(429)
  })
})
