import { afterAll, beforeAll, beforeEach, expect } from '@jest/globals'
import { newId } from '../../src/contract/ids.ts'
import { recordAccountEvents } from '../../src/governance/people/account-events.ts'
import { until } from '../stack/until.ts'
import { type Delivery, startSmtpSink, type SmtpSink } from '../support/smtp-sink.ts'
import { Browser, totp } from './browser.ts'
import { sessionCookie } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/* People who sign up and sign in, for tests of accounts. */

/**
 * A server that sends its mails to a sink, for all tests of a file. The counts of sign-ins are reset before each test.
 */
export function useMailingServer(
  use: (server: TestServer, sink: SmtpSink) => void,
  env: NodeJS.ProcessEnv = {},
): void {
  let sink: SmtpSink
  let server: TestServer
  beforeAll(async () => {
    sink = await startSmtpSink()
    server = await startTestServer({ env: { SMTP_URL: sink.url, ...env } })
    use(server, sink)
  })
  afterAll(async () => {
    await server?.close()
    await sink?.close()
  })
  // Limits are counted per IP address, and all these people share one address.
  beforeEach(() => server.context.pool.query('delete from auth_rate_limits'))
}

export const password = 'correct horse battery'

export interface SignedIn {
  readonly email: string
  readonly id: string
  /** A browser in which the person is signed in. */
  readonly at: Browser
  /** Signs in by password in another browser. */
  signIn(): Promise<Browser>
  /** Begins a sign-in in another browser. It waits for the second factor. */
  halfSignIn(): Promise<Browser>
}

/** A code of an authenticator that differs from the one that enrolled. */
export const laterCode = (key: string): string => totp(key, Date.now() + 30_000)

/** Signs up a person whose e-mail address is not confirmed. The person is signed in. */
export async function signedUp(server: TestServer): Promise<SignedIn> {
  const email = `${newId('user').toLowerCase()}@acme.test`
  const { status, body } = await new Browser(server).auth('sign-up/email', { name: 'Ana', email, password })
  expect(status).toBe(200)
  const signIn = async (): Promise<Browser> => {
    const at = new Browser(server)
    expect((await at.signIn(email, password)).status).toBe(200)
    return at
  }
  const halfSignIn = async (): Promise<Browser> => {
    const at = new Browser(server)
    expect((await at.signIn(email, password)).body).toMatchObject({ twoFactorRedirect: true })
    return at
  }
  return { email, id: body.user.id as string, at: await signIn(), signIn, halfSignIn }
}

/**
 * Signs up a person whose e-mail address is confirmed. The row is changed directly: unlike the mailed link, this ends
 * no session.
 */
export async function confirmedPerson(server: TestServer): Promise<SignedIn> {
  const person = await signedUp(server)
  await server.context.pool.query('update users set email_verified = true where id = $1', [person.id])
  return person
}

/** A browser with a session of this person that counts as opened without a second factor. */
export async function oldSession(server: TestServer, userId: string) {
  const cookie = await sessionCookie(server.context, userId, undefined, 'unrecorded')
  return {
    cookie,
    send: (method: string, path: string, body?: unknown) =>
      server.call(null, method, path, body, { cookie, origin: server.base }),
  }
}

/** The types of the organization's audit entries. Account events are moved into its chain first. */
export async function eventTypesOf(server: TestServer, organizationId: string): Promise<string[]> {
  await recordAccountEvents(server.context)
  const { rows } = await server.context.pool.query<{ event_type: string }>(
    'select event_type from audit_events where organization_id = $1 order by seq',
    [organizationId],
  )
  return rows.map(({ event_type }) => event_type)
}

/** The last mail to an address with this subject, without soft line breaks. Waits until it has arrived. */
export async function mailTo(sink: SmtpSink, email: string, subject: string): Promise<string> {
  const find = () =>
    sink.deliveries.findLast((mail) => mail.recipients.includes(email) && mail.subject === subject)
  await until(`a mail to ${email}`, async () => find() !== undefined)
  return (find()?.raw ?? '').replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=')
}

/** Asks for a mailed token for this person. Returns a function that sets a password with it. */
export async function resetOf(server: TestServer, sink: SmtpSink, email: string) {
  const had = sink.deliveries.length
  await new Browser(server).auth('request-password-reset', { email })
  const isIt = (mail: Delivery) => mail.recipients.includes(email) && mail.subject === 'A new password'
  await until(`a mail to ${email}`, () => sink.deliveries.slice(had).some(isIt))
  const token = tokenIn(await mailTo(sink, email, 'A new password'))
  return (newPassword: string, at = new Browser(server)) => at.auth('reset-password', { token, newPassword })
}

export const tokenIn = (mail: string): string => /token=([\w.-]+)/.exec(mail)?.[1] ?? ''
