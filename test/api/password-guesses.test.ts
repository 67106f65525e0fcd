import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createApp } from '../../src/api/app.ts'
import { createHttpServer } from '../../src/api/http-server.ts'
import { createContext } from '../../src/programs/create-context.ts'
import type { Context } from '../../src/governance/context.ts'
import { forgetEndedSignIns } from '../../src/governance/people/account-events.ts'
import { startSmtpSink, type SmtpSink } from '../support/smtp-sink.ts'
import { until } from '../stack/until.ts'
import { Browser } from './browser.ts'
import { listen, startTestServer, type TestServer } from './server.ts'

/*
 * Each guess comes from another IP address, as if an attacker had many addresses. A trusted proxy names a new address
 * for each guess.
 */

let sink: SmtpSink
let server: TestServer
let other: { base: string; context: Context; close(): Promise<void> }
beforeAll(async () => {
  sink = await startSmtpSink()
  server = await startTestServer({ env: { SMTP_URL: sink.url, TRUSTED_PROXY_HOSTS: '127.0.0.1' } })
  const context = createContext(server.context.config, 'api')
  const draining = new AbortController().signal
  const services = { temporal: async () => true, draining, mail: async () => {} }
  const api = createHttpServer(createApp(context, services))
  other = {
    base: await listen(api),
    context,
    async close() {
      api.closeAllConnections()
      await new Promise((resolve) => api.close(resolve))
      await context.close()
    },
  }
})
afterAll(async () => {
  await other.close()
  await server.close()
  await sink.close()
})
beforeEach(() => server.context.pool.query('delete from password_guesses; delete from auth_rate_limits'))

let addresses = 0
const elsewhere = () => {
  addresses += 1
  return { 'x-forwarded-for': `10.${addresses >> 8}.${addresses & 255}.1` }
}
const { email, password } = { email: 'member@countersign.test', password: 'not the password' }
const guess = (whose = email, what = password, at = new Browser(server)) =>
  at.auth('sign-in/email', { email: whose, password: what }, elsewhere())
const theirs = () => server.identities.users.member.password
const pass = (seconds: number) =>
  server.context.pool.query('update password_guesses set at = at - make_interval(secs => $1)', [seconds])

async function statuses(count: number, ask: () => Promise<{ status: number }>): Promise<number[]> {
  const found: number[] = []
  for (let turn = 0; turn < count; turn += 1) found.push((await ask()).status)
  return found
}
const times = (count: number, status: number): number[] => Array.from({ length: count }, () => status)

describe('guessing at the password of an account', () => {
  test('stops after ten wrong ones, from any number of addresses, even for the right one', async () => {
    expect(await statuses(12, () => guess())).toEqual([...times(10, 401), 429, 429])
    expect((await guess(email.toUpperCase())).status).toBe(429)
    const refused = await guess(email, theirs())
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(100)
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(300)
    expect((await guess('viewer@countersign.test')).status).toBe(401)
  })

  test('is the same for an address without an account, in every answer', async () => {
    for (let turn = 0; turn < 12; turn += 1) {
      const [known, unknown] = [await guess(), await guess('nobody@countersign.test')]
      expect([unknown.status, unknown.body]).toEqual([known.status, known.body])
      expect([...unknown.headers.keys()].sort()).toEqual([...known.headers.keys()].sort())
    }
  })

  test('of simultaneous guesses at two processes, exactly ten are checked', async () => {
    const ask = async (base: string) => {
      const headers = { 'content-type': 'application/json', origin: base, ...elsewhere() }
      const body = JSON.stringify({ email, password })
      return (await fetch(`${base}/api/auth/sign-in/email`, { method: 'POST', headers, body })).status
    }
    const bases = Array.from({ length: 24 }, (_, turn) => (turn % 2 === 0 ? server.base : other.base))
    const found = await Promise.all(bases.map(ask))
    const of = (...statuses: number[]) => found.filter((status) => statuses.includes(status)).length
    // On a very busy machine a request may get no database connection in time. Its guess is then not checked.
    expect(of(401)).toBeLessThanOrEqual(10)
    expect(of(401, 503)).toBeGreaterThanOrEqual(10)
    expect(of(401, 429, 503)).toBe(24)
  })

  test('continues with one guess every five minutes, and never with more than ten', async () => {
    await statuses(10, () => guess())
    await pass(100)
    expect((await guess()).status).toBe(429)
    await pass(200)
    expect(await statuses(2, () => guess())).toEqual([401, 429])
    await pass(24 * 3600)
    expect(await statuses(11, () => guess())).toEqual([...times(10, 401), 429])
  })

  test('right passwords, and requests that are not guesses, cost nothing', async () => {
    expect(await statuses(15, () => guess(email, theirs()))).toEqual(times(15, 200))
    const at = new Browser(server)
    expect(await statuses(15, () => at.auth('sign-in/email', { email, password: 7 }, elsewhere()))).toEqual(
      times(15, 400),
    )
    const form = { name: 'A', email: 'again@countersign.test', password: 'a long password' }
    await statuses(15, () => at.auth('sign-up/email', form, elsewhere()))
    expect((await guess('again@countersign.test')).status).toBe(401)
  })

  test('no address is stored, and old guesses are deleted', async () => {
    await guess('stranger@elsewhere.test')
    const rows = async () => (await server.context.pool.query('select * from password_guesses')).rows
    expect(JSON.stringify(await rows())).not.toContain('stranger')
    await forgetEndedSignIns(server.context.db)
    expect(await rows()).toHaveLength(1)
    await pass(3_001)
    await forgetEndedSignIns(server.context.db)
    expect(await rows()).toEqual([])
  })
})

describe('the person whose account it is', () => {
  test('signs in from a known browser, and has ten mistakes of their own there', async () => {
    const home = new Browser(server)
    expect((await guess(email, theirs(), home)).status).toBe(200)
    await home.auth('sign-out', {}, elsewhere())
    await statuses(11, () => guess())
    expect((await guess(email, theirs(), home)).status).toBe(200)
    expect(await statuses(11, () => guess(email, password, home))).toEqual([...times(10, 401), 429])
  })

  test('a known browser is known only for its own account, and its cookie cannot be forged', async () => {
    const at = new Browser(server)
    const { email: owner, password: owners } = server.identities.users.owner
    expect((await guess(owner, owners, at)).status).toBe(200)
    const [cookie = ''] = /countersign\.known_browser=[^;]+/.exec(at.cookie) ?? []
    expect(cookie).not.toBe('')
    await statuses(10, () => guess())
    expect((await guess(email, theirs(), at)).status).toBe(429)
    await statuses(10, () => guess(owner))
    const sent = (value: string) =>
      new Browser(server).auth(
        'sign-in/email',
        { email: owner, password: owners },
        { cookie: value, ...elsewhere() },
      )
    expect((await sent(cookie)).status).toBe(200)
    const [name = '', until = '', signature = ''] = cookie.split('.').slice(-3)
    for (const value of [
      `countersign.known_browser=x.${until}.${signature}`,
      `${cookie}x`,
      cookie.slice(0, -1),
      cookie.replace(until, '9999999999'),
    ])
      expect([name !== '', (await sent(value)).status]).toEqual([true, 429])
  })

  test('the cookie is hidden from scripts, and sent to both ways to sign in', async () => {
    const { headers } = await guess(email, theirs())
    const line = headers.getSetCookie().find((each) => each.startsWith('countersign.known_browser='))
    expect(line).toMatch(/; Path=\/; HttpOnly; SameSite=Lax$/)
    const wrong = await guess()
    expect(wrong.headers.getSetCookie()).toEqual([])
    const form = { name: 'A', email, password: 'a long password' }
    const signUp = await new Browser(server).auth('sign-up/email', form, elsewhere())
    expect([signUp.status, signUp.headers.getSetCookie()]).toEqual([200, []])
  })

  test('gets in from elsewhere with a password set by mail', async () => {
    const { email: viewer } = server.identities.users.viewer
    await statuses(10, () => guess(viewer))
    const at = new Browser(server)
    await at.auth('request-password-reset', { email: viewer }, elsewhere())
    const find = () => sink.deliveries.findLast((mail) => mail.recipients.includes(viewer))
    await until('the mail', async () => find() !== undefined)
    const text = (find()?.raw ?? '').replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=')
    const [, token] = /token=([\w.-]+)/.exec(text) ?? []
    const reset = await at.auth('reset-password', { token, newPassword: 'a new password' }, elsewhere())
    expect(reset.status).toBe(200)
    expect((await guess(viewer, 'a new password')).status).toBe(429)
    expect((await guess(viewer, 'a new password', at)).status).toBe(200)
  })
})

test('a stolen session has no more guesses at its password', async () => {
  const { email: admin, password: right } = server.identities.users.admin
  const at = new Browser(server)
  expect((await guess(admin, right, at)).status).toBe(200)
  const paths = ['change-password', 'two-factor/enable', 'two-factor/disable']
  let turn = 0
  const ask = () => {
    turn += 1
    const path = paths[turn % 3] as string
    const body = { password, currentPassword: password, newPassword: 'a new password' }
    return at.auth(path, body, elsewhere())
  }
  expect(await statuses(11, ask)).toEqual([...times(10, 400), 429])
  expect((await at.auth('two-factor/enable', { password: right }, elsewhere())).status).toBe(429)
  // Wrong passwords that are sent within a session do not count for the limit of sign-ins.
  expect((await guess(admin, right)).status).toBe(200)
})
