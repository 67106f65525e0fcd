import { describe, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { asAdmin } from '../support/postgres.ts'
import type { SmtpSink } from '../support/smtp-sink.ts'
import { Browser, totp } from './browser.ts'
import type { TestServer } from './server.ts'
import {
  confirmedPerson,
  mailTo,
  oldSession,
  password,
  tokenIn,
  useMailingServer,
  type SignedIn,
} from './signed-in.ts'

/*
 * A sign-in with the old password that is under way while the password is changed. Each test stops the sign-in or the
 * change inside PostgreSQL, so nothing depends on the time that a request takes.
 */

let sink: SmtpSink
let server: TestServer
useMailingServer((...both) => ([server, sink] = both))

const better = 'a better password'
const held = { 'user-agent': 'held' }

/** Resolves once this number of database sessions waits for a lock. */
const waiting = (count: number) =>
  until(`${count} sessions wait`, async () => {
    const { rows } = await server.context.pool.query<{ waiting: number }>(
      `select count(*)::int as waiting from pg_stat_activity
       where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return rows[0]?.waiting === count
  })

/** Stops each statement of this kind after it has changed a row, until `meanwhile` has ended. */
async function stopped<T>(
  { table, kind, when }: { readonly table: string; readonly kind: string; readonly when: string },
  begin: () => Promise<T>,
  meanwhile: () => Promise<void>,
): Promise<T> {
  const { adminUrl, context } = server
  const holder = await context.pool.connect()
  await asAdmin(adminUrl, (admin) =>
    admin.query(`
      create or replace function stop_here() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(4711); return null; end $$;
      create trigger stop_here after ${kind} on ${table} for each row when (${when}) execute function stop_here()`),
  )
  try {
    await holder.query('select pg_advisory_lock(4711)')
    const begun = begin()
    await waiting(1)
    await meanwhile()
    await holder.query('select pg_advisory_unlock(4711)')
    return await begun
  } finally {
    holder.release(true)
    await asAdmin(adminUrl, (admin) => admin.query(`drop trigger stop_here on ${table}`))
  }
}

const newSession = { table: 'auth_sessions', kind: 'insert', when: `new.user_agent = 'held'` }
const newHalfSignIn = { table: 'auth_verifications', kind: 'insert', when: `new.identifier like '2fa-%'` }
const endedSession = { table: 'auth_sessions', kind: 'delete', when: 'true' }
const newPassword = { table: 'auth_accounts', kind: 'update', when: 'new.password <> old.password' }

/** Returns a function that sets the password `better` with a mailed token. */
async function resetOf({ email }: SignedIn) {
  await new Browser(server).auth('request-password-reset', { email })
  const token = tokenIn(await mailTo(sink, email, 'A new password'))
  return () => new Browser(server).auth('reset-password', { token, newPassword: better })
}
const changeAt = (at: Browser) => () =>
  at.auth('change-password', { currentPassword: password, newPassword: better })

const changes = {
  'a reset by mail': resetOf,
  'a change in another session': async ({ at }: SignedIn) => changeAt(at),
}

describe.each(Object.entries(changes))('%s', (_, changeOf) => {
  const changing = async (person: SignedIn) => {
    const change = await changeOf(person)
    return async () => expect((await change()).status).toBe(200)
  }
  const expectOnlyBetter = async ({ email }: SignedIn) => {
    expect((await new Browser(server).signIn(email, password)).status).toBe(401)
    expect((await new Browser(server).signIn(email, better)).status).toBe(200)
  }

  test('ends a sign-in that has verified the old password and has no session yet', async () => {
    const person = await confirmedPerson(server)
    const change = await changing(person)
    const late = new Browser(server)
    const { email } = person
    const answer = await stopped(
      newSession,
      () => late.auth('sign-in/email', { email, password }, held),
      change,
    )
    expect([answer.status, answer.body.code]).toEqual([401, 'PASSWORD_CHANGED'])
    expect((await late.send('GET', '/me')).status).toBe(401)
    await expectOnlyBetter(person)
  })

  test('ends a session that begins after the change has ended the others', async () => {
    const person = await confirmedPerson(server)
    const change = await changing(person)
    const late = new Browser(server)
    await stopped(endedSession, change, async () => {
      expect((await late.signIn(person.email, password)).status).toBe(200)
    })
    expect((await late.send('GET', '/me')).status).toBe(401)
    await expectOnlyBetter(person)
  })

  test('makes a sign-in wait that begins after the password is written', async () => {
    const person = await confirmedPerson(server)
    const change = await changing(person)
    const late = new Browser(server)
    let answer: ReturnType<Browser['signIn']> | undefined
    await stopped(newPassword, change, async () => {
      answer = late.signIn(person.email, password)
      await waiting(2)
    })
    expect(await answer).toMatchObject({ status: 401, body: { code: 'PASSWORD_CHANGED' } })
    expect((await late.send('GET', '/me')).status).toBe(401)
    await expectOnlyBetter(person)
  })

  test('ends a sign-in that is about to wait for its second factor', async () => {
    const person = await confirmedPerson(server)
    const { key } = await person.at.enrol(password)
    const change = await changing(person)
    const late = new Browser(server)
    const answer = await stopped(newHalfSignIn, () => late.signIn(person.email, password), change)
    expect([answer.status, answer.body.code]).toEqual([401, 'PASSWORD_CHANGED'])
    const code = totp(key, Date.now() + 30_000)
    expect((await late.auth('two-factor/verify-totp', { code })).status).toBe(401)
  })

  test('ends a sign-in that waits for its second factor', async () => {
    const person = await confirmedPerson(server)
    const { key } = await person.at.enrol(password)
    const change = await changing(person)
    const half = new Browser(server)
    expect((await half.signIn(person.email, password)).body.twoFactorRedirect).toBe(true)
    await change()
    const code = totp(key, Date.now() + 30_000)
    expect((await half.auth('two-factor/verify-totp', { code })).status).toBe(401)
  })

  test('ends a sign-in that has proven its second factor and has no session yet', async () => {
    const person = await confirmedPerson(server)
    const { backupCodes } = await person.at.enrol(password)
    const change = await changing(person)
    const half = new Browser(server)
    expect((await half.signIn(person.email, password)).body.twoFactorRedirect).toBe(true)
    const prove = () => half.auth('two-factor/verify-backup-code', { code: backupCodes[0] }, held)
    const answer = await stopped(newSession, prove, change)
    expect([answer.status, answer.body.code]).toEqual([401, 'PASSWORD_CHANGED'])
    expect((await half.send('GET', '/me')).status).toBe(401)
  })

  test('ends a session that is about to give up its second factor', async () => {
    const person = await confirmedPerson(server)
    const { backupCodes } = await person.at.enrol(password)
    const other = new Browser(server)
    await other.signIn(person.email, password)
    // The session without the factor keeps the user agent of this session.
    await other.auth('two-factor/verify-backup-code', { code: backupCodes[0] }, held)
    const change = await changing(person)
    const disable = () => other.auth('two-factor/disable', { password })
    const answer = await stopped(newSession, disable, change)
    expect([answer.status, answer.body.code]).toEqual([401, 'PASSWORD_CHANGED'])
    expect((await other.send('GET', '/me')).status).toBe(401)
  })
})

test('a reset ends an older session that has just proven the second factor', async () => {
  const person = await confirmedPerson(server)
  const { key } = await person.at.enrol(password)
  const older = await oldSession(server, person.id)
  const reset = await resetOf(person)
  const code = totp(key, Date.now() + 30_000)
  const withFactor = { table: 'auth_sessions', kind: 'insert', when: `new.opened_with = 'password+totp'` }
  const answer = await stopped(
    withFactor,
    () => older.send('POST', '/api/auth/two-factor/verify-totp', { code }),
    async () => expect((await reset()).status).toBe(200),
  )
  expect([answer.status, answer.body.code]).toEqual([401, 'PASSWORD_CHANGED'])
  const left = await server.context.pool.query('select from auth_sessions where user_id = $1', [person.id])
  expect(left.rowCount).toBe(0)
})

test('a change of the password does not undo a reset that was faster', async () => {
  const person = await confirmedPerson(server)
  const reset = await resetOf(person)
  const other = await person.signIn()
  const holder = await server.context.pool.connect()
  try {
    await holder.query('begin')
    await holder.query('select from auth_sessions where user_id = $1 for update', [person.id])
    // Both wait for the sessions, in this order. The change has verified the old password by then.
    const first = reset()
    await waiting(1)
    const second = other.auth('change-password', { currentPassword: password, newPassword: 'of a stranger' })
    await waiting(2)
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
