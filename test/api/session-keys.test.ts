import { randomBytes } from 'node:crypto'
import { afterEach, expect, test } from '@jest/globals'
import { sessionSecrets } from '../../src/shared/session-secrets.ts'
import { asAdmin } from '../support/postgres.ts'
import { Browser, totp } from './browser.ts'
import { startBeside, type TestServer } from './server.ts'
import { confirmedPerson, password, useMailingServer } from './signed-in.ts'

/* Second factors after SESSION_SECRET_KEY has changed. */

let server: TestServer
useMailingServer((started) => (server = started))

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
async function prove(
  at: TestServer,
  email: string,
  way: 'totp' | 'backup-code',
  code: string,
): Promise<number> {
  const browser = new Browser(at)
  expect((await browser.signIn(email, password)).body).toMatchObject({ twoFactorRedirect: true })
  return (await browser.auth(`two-factor/verify-${way}`, { code })).status
}

const [second, third] = ['b'.repeat(40), 'c'.repeat(40)] as const
const elsewhere = [randomBytes(32)] as const

test('earlier keys still open second factors, and new ones use the new key', async () => {
  const { at, email } = await confirmedPerson(server)
  const { backupCodes } = await at.enrol(password)
  // The key that was derived from the encryption key counts as an earlier one.
  const rotated = await withKeys(second)
  expect(await prove(rotated, email, 'backup-code', backupCodes[0] as string)).toBe(200)
  // The remaining backup codes were encrypted again, with the new key.
  expect(await prove(await withKeys(third, [second]), email, 'backup-code', backupCodes[1] as string)).toBe(
    200,
  )

  const { at: other, email: another } = await confirmedPerson(rotated)
  const { key } = await other.enrol(password)
  const code = totp(key, Date.now() + 30_000)
  expect(await prove(await withKeys(third, [], elsewhere), another, 'totp', code)).toBe(500)
  expect(await prove(await withKeys(third, [second], elsewhere), another, 'totp', code)).toBe(200)
})

test('a factor that an older version of the service stored opens with the first key', async () => {
  const { at, email } = await confirmedPerson(server)
  const { key } = await at.enrol(password)
  // A trigger keeps proven factors from being changed.
  await asAdmin(server.adminUrl, async (client) => {
    await client.query('set session_replication_role = replica')
    await client.query(`update auth_two_factors set secret = regexp_replace(secret, '^\\$ba\\$\\d+\\$', '')`)
  })
  const first = server.context.config.sessionSecret
  const code = totp(key, Date.now() + 30_000)
  expect(await prove(await withKeys(third, [second], elsewhere), email, 'totp', code)).toBe(500)
  expect(await prove(await withKeys(third, [second, first], elsewhere), email, 'totp', code)).toBe(200)
})
