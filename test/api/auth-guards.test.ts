import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
import { Browser, totp } from './browser.ts'
import { startTestServer, type TestServer } from './server.ts'

/* Features of the sign-in library that the service does not offer. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())
beforeEach(() => server.context.pool.query('delete from auth_rate_limits'))

const password = 'correct horse battery'
async function person() {
  const email = `${newId('user').toLowerCase()}@acme.test`
  const at = new Browser(server)
  const { body } = await at.auth('sign-up/email', { name: 'Ana', email, password })
  await server.context.pool.query('update users set email_verified = true where id = $1', [body.user.id])
  expect((await at.signIn(email, password)).status).toBe(200)
  return { email, at, id: body.user.id as string }
}

describe('a trusted device', () => {
  test('is not offered: every sign-in takes the second factor', async () => {
    const { email, at, id } = await person()
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
    const { email, at } = await person()
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
    const { email, at } = await person()
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
    const { email, at } = await person()
    const other = new Browser(server)
    await other.signIn(email, password)
    const body = { currentPassword: password, newPassword: 'another password', ...more }
    expect((await at.auth('change-password', body)).status).toBe(200)
    expect((await other.send('GET', '/me')).status).toBe(401)
    expect((await at.send('GET', '/me')).status).toBe(200)
  }
})

describe('switched off', () => {
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
    const { at } = await person()
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
    const { at } = await person()
    await server.context.pool.query('delete from auth_rate_limits')
    const answers = await Promise.all(
      Array.from({ length: 2 }, () => at.auth('two-factor/enable', { password })),
    )
    const statuses = answers.map(({ status }) => status)
    expect(statuses).toContain(200)
    for (const status of statuses) expect([200, 409]).toContain(status)
  }
})
