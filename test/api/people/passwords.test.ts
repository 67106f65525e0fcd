import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createApp } from '../../../src/api/app.ts'
import { createHttpServer } from '../../../src/api/http-server.ts'
import { createContext } from '../../../src/programs/create-context.ts'
import type { Context } from '../../../src/governance/context.ts'
import { forgetEndedSignIns } from '../../../src/governance/people/account-events.ts'
import type { SmtpSink } from '../../support/smtp-sink.ts'
import { Browser } from '../browser.ts'
import { type Answer, listen, type TestServer } from '../server.ts'
import { stopped, waiting } from '../stopped.ts'
import {
  confirmedPerson,
  laterCode,
  oldSession,
  password,
  resetOf,
  type SignedIn,
  useMailingServer,
} from '../signed-in.ts'

/*
 * A sign-in with the old password that is under way while the password is changed. Each test stops the sign-in or the
 * change inside PostgreSQL, so nothing depends on the time that a request takes.
 */

let sink: SmtpSink
let server: TestServer
useMailingServer((...both) => ([server, sink] = both), { TRUSTED_PROXY_HOSTS: '127.0.0.1' })

const better = 'a better password'
const held = { 'user-agent': 'held' }

const newSession = { table: 'auth_sessions', kind: 'insert', when: `new.user_agent = 'held'` }
const newHalfSignIn = { table: 'auth_verifications', kind: 'insert', when: `new.identifier like '2fa-%'` }
const endedSession = { table: 'auth_sessions', kind: 'delete', when: 'true' }
const newPassword = { table: 'auth_accounts', kind: 'update', when: 'new.password <> old.password' }

/** The status and the code of an answer of the sign-in library. */
const codeOf = ({ status, body }: Answer) => [status, body.code]
const refused = [401, 'PASSWORD_CHANGED']

async function mailedReset({ email }: SignedIn) {
  const set = await resetOf(server, sink, email)
  return () => set(better)
}
const changes = {
  'a reset by mail': mailedReset,
  'a change in another session':
    async ({ at }: SignedIn) =>
    () =>
      at.auth('change-password', { currentPassword: password, newPassword: better }),
}

describe.each(Object.entries(changes))('%s', (_, changeOf) => {
  const changing = async (person: SignedIn) => {
    const change = await changeOf(person)
    return async () => expect((await change()).status).toBe(200)
  }
  const expectOnlyBetter = async ({ email }: SignedIn, late: Browser) => {
    expect((await late.send('GET', '/me')).status).toBe(401)
    expect((await new Browser(server).signIn(email, password)).status).toBe(401)
    expect((await new Browser(server).signIn(email, better)).status).toBe(200)
  }
  /** A person with a second factor, and a function that changes the password. */
  const enrolled = async () => {
    const person = await confirmedPerson(server)
    const { key, backupCodes } = await person.at.enrol(password)
    const change = await changing(person)
    const late = new Browser(server)
    const proves = async (at: Browser) =>
      (await at.auth('two-factor/verify-totp', { code: laterCode(key) })).status
    return { ...person, backupCode: { code: backupCodes[0] }, change, late, proves }
  }

  test('ends a sign-in that has verified the old password and has no session yet', async () => {
    const person = await confirmedPerson(server)
    const change = await changing(person)
    const late = new Browser(server)
    const signIn = () => late.auth('sign-in/email', { email: person.email, password }, held)
    expect(codeOf(await stopped(server, newSession, signIn, change))).toEqual(refused)
    await expectOnlyBetter(person, late)
  })

  test('ends a session that begins after the change has ended the others', async () => {
    const person = await confirmedPerson(server)
    const change = await changing(person)
    const late = new Browser(server)
    await stopped(server, endedSession, change, async () => {
      expect((await late.signIn(person.email, password)).status).toBe(200)
    })
    await expectOnlyBetter(person, late)
  })

  test('makes a sign-in wait that begins after the password is written', async () => {
    const person = await confirmedPerson(server)
    const change = await changing(person)
    const late = new Browser(server)
    let answer: ReturnType<Browser['signIn']> | undefined
    await stopped(server, newPassword, change, async () => {
      answer = late.signIn(person.email, password)
      await waiting(server, 2)
    })
    expect(await answer).toMatchObject({ status: 401, body: { code: 'PASSWORD_CHANGED' } })
    await expectOnlyBetter(person, late)
  })

  test('ends a sign-in that is about to wait for its second factor', async () => {
    const { email, late, change, proves } = await enrolled()
    const answer = await stopped(server, newHalfSignIn, () => late.signIn(email, password), change)
    expect(codeOf(answer)).toEqual(refused)
    expect(await proves(late)).toBe(401)
  })

  test('ends a sign-in that waits for its second factor', async () => {
    const { halfSignIn, change, proves } = await enrolled()
    const half = await halfSignIn()
    await change()
    expect(await proves(half)).toBe(401)
  })

  test('ends a sign-in that has proven its second factor and has no session yet', async () => {
    const { halfSignIn, change, backupCode } = await enrolled()
    const half = await halfSignIn()
    const prove = () => half.auth('two-factor/verify-backup-code', backupCode, held)
    expect(codeOf(await stopped(server, newSession, prove, change))).toEqual(refused)
    expect((await half.send('GET', '/me')).status).toBe(401)
  })

  test('ends a session that is about to give up its second factor', async () => {
    const { halfSignIn, change, backupCode } = await enrolled()
    const other = await halfSignIn()
    // The session without the factor keeps the user agent of this session.
    await other.auth('two-factor/verify-backup-code', backupCode, held)
    const disable = () => other.auth('two-factor/disable', { password })
    expect(codeOf(await stopped(server, newSession, disable, change))).toEqual(refused)
    expect((await other.send('GET', '/me')).status).toBe(401)
  })
})

test('a reset ends an older session that has just proven the second factor', async () => {
  const person = await confirmedPerson(server)
  const { key } = await person.at.enrol(password)
  const older = await oldSession(server, person.id)
  const reset = await mailedReset(person)
  const code = laterCode(key)
  const withFactor = { table: 'auth_sessions', kind: 'insert', when: `new.opened_with = 'password+totp'` }
  const answer = await stopped(
    server,
    withFactor,
    () => older.send('POST', '/api/auth/two-factor/verify-totp', { code }),
    async () => expect((await reset()).status).toBe(200),
  )
  expect(codeOf(answer)).toEqual(refused)
  const left = await server.context.pool.query('select from auth_sessions where user_id = $1', [person.id])
  expect(left.rowCount).toBe(0)
})

test('a change of the password does not undo a reset that was faster', async () => {
  const person = await confirmedPerson(server)
  const reset = await mailedReset(person)
  const other = await person.signIn()
  const holder = await server.context.pool.connect()
  try {
    await holder.query('begin')
    await holder.query('select from auth_sessions where user_id = $1 for update', [person.id])
    // Both wait for the sessions, in this order. The change has verified the old password by then.
    const first = reset()
    await waiting(server, 1)
    const body = { currentPassword: password, newPassword: 'of a stranger' }
    const second = other.auth('change-password', body)
    await waiting(server, 2)
    await holder.query('commit')
    expect((await first).status).toBe(200)
    expect((await second).status).toBe(401)
  } finally {
    holder.release(true)
  }
  expect((await other.send('GET', '/me')).status).toBe(401)
  expect((await new Browser(server).signIn(person.email, 'of a stranger')).status).toBe(401)
  expect((await new Browser(server).signIn(person.email, better)).status).toBe(200)
})

test('a sign-in without a change works, also with another spelling of the address', async () => {
  const { email } = await confirmedPerson(server)
  for (const spelling of [email, email.toUpperCase()]) {
    const at = new Browser(server)
    expect((await at.signIn(spelling, password)).status).toBe(200)
    expect((await at.send('GET', '/me')).status).toBe(200)
  }
  for (const wrong of ['nobody@acme.test', 'a\0@acme.test', 'no address'])
    expect([400, 401]).toContain((await new Browser(server).signIn(wrong, password)).status)
})

describe('guesses', () => {
  /*
   * Each guess comes from another IP address, as if an attacker had many addresses. A trusted proxy names a new address
   * for each guess.
   */

  let other: { base: string; context: Context; close(): Promise<void> }
  beforeAll(async () => {
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
  afterAll(() => other.close())
  beforeEach(() => server.context.pool.query('delete from password_guesses'))

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
      const set = await resetOf(server, sink, viewer)
      const at = new Browser(server)
      expect((await set('a new password', at)).status).toBe(200)
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
})

describe('a new password that is easy to guess', () => {
  const easy = ['password1', '12345678', 'qwertyuiop', 'Summer2026', 'aaaaaaaaaaaa', 'p4ssw0rd'.repeat(16)]
  const refusal = [400, 'PASSWORD_TOO_EASY']

  test.each(easy)('is refused: %s', async (newPassword) => {
    const { at } = await confirmedPerson(server)
    expect(codeOf(await at.auth('change-password', { currentPassword: password, newPassword }))).toEqual(
      refusal,
    )
  })

  test('is refused for a new account and after a mail too, also with the own name in it', async () => {
    const email = 'quincewater@larkspur.example'
    const account = { email, name: 'Ann Quincewater', password: 'quincewater1' }
    expect(codeOf(await new Browser(server).auth('sign-up/email', account))).toEqual(refusal)
    const { email: own } = await confirmedPerson(server)
    const set = await resetOf(server, sink, own)
    expect(codeOf(await set('password1'))).toEqual(refusal)
    // The mailed link still holds.
    expect((await set('four words without sense')).status).toBe(200)
  })
})
