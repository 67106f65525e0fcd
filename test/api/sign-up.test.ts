import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { startSmtpSink, type SmtpSink } from '../support/smtp-sink.ts'
import { until } from '../stack/until.ts'
import { Browser } from './browser.ts'
import { startTestServer, type Answer, type TestServer } from './server.ts'

const password = 'correct horse battery'
let sink: SmtpSink
beforeAll(async () => {
  sink = await startSmtpSink()
})
afterAll(() => sink?.close())

/** Starts a server in this mode for the tests of one `describe`. */
function serverOf(mode: string, more: NodeJS.ProcessEnv = {}): () => TestServer {
  let server: TestServer | undefined
  beforeAll(async () => {
    server = await startTestServer({ env: { SIGN_UP: mode, SMTP_URL: sink.url, ...more } })
  })
  afterAll(() => server?.close())
  // Limits are counted per IP address, and all these people share one address.
  beforeEach(() => server?.context.pool.query('delete from auth_rate_limits'))
  return () => server as TestServer
}

const signUp = (server: TestServer, email: string, more: object = {}) =>
  new Browser(server).auth('sign-up/email', { name: 'Ana', email, password, ...more })
const signIn = (server: TestServer, email: string) => new Browser(server).signIn(email, password)

async function hasAccount({ context }: TestServer, email: string): Promise<boolean> {
  const { rowCount } = await context.pool.query('select from users where email = $1', [email.toLowerCase()])
  return rowCount === 1
}

async function invite(server: TestServer, email: string): Promise<{ id: string; token: string }> {
  const { owner } = server.identities.users
  const path = `/organizations/${server.identities.organization_id}/invitations`
  const { body } = await server.call(owner.api_key, 'POST', path, { email, send_mail: false })
  return body
}

const confirm = ({ context }: TestServer, email: string) =>
  context.pool.query('update users set email_verified = true where email = $1', [email])

/** The answer without its ids, its times and the caller's own data. */
const told = ({ status, body }: Answer) => ({
  status,
  token: body.token,
  code: body.code,
  message: body.message,
  user: body.user === undefined ? null : Object.keys(body.user).sort(),
  verified: body.user?.emailVerified,
})

describe('who can sign up', () => {
  const modes = ['open', 'invited', 'closed', 'domain:acme.com,bücher.example'] as const
  const servers = Object.fromEntries(modes.map((mode) => [mode, serverOf(mode)]))
  /** For each e-mail address, the modes in which it gets an account. */
  const table: readonly (readonly [string, readonly string[]])[] = [
    ['stranger@elsewhere.test', ['open']],
    ['invited@elsewhere.test', ['open', 'invited']],
    ['Invited-Upper@Elsewhere.test', ['open', 'invited']],
    ['ana@acme.com', ['open', modes[3]]],
    ['Ana2@ACME.com', ['open', modes[3]]],
    ['ana@xn--bcher-kva.example', ['open', modes[3]]],
    ['ana@mail.acme.com', ['open']],
    ['ana@evilacme.com', ['open']],
    ['ana@acme.com.evil.test', ['open']],
  ]
  test.each(modes)('%s', async (mode) => {
    const server = (servers[mode] as () => TestServer)()
    await invite(server, 'invited@elsewhere.test')
    await invite(server, 'invited-upper@elsewhere.test')
    for (const [email, ones] of table) {
      await server.context.pool.query('delete from auth_rate_limits')
      const { status, body } = await signUp(server, email)
      const made = ones.includes(mode)
      expect([email, await hasAccount(server, email)]).toEqual([email, made])
      const isSaid = mode === 'closed' || mode.startsWith('domain:')
      expect([email, status]).toEqual([email, made || !isSaid ? 200 : 403])
      if (status === 403) expect(body.code).toBe('SIGN_UP_NOT_OFFERED')
    }
  })

  test('the refusal in domain mode names the accepted domains', async () => {
    const server = (servers[modes[3]] as () => TestServer)()
    const { body } = await signUp(server, 'x@elsewhere.test')
    expect(body.message).toContain('`acme.com`, `xn--bcher-kva.example`')
  })

  test('in open mode an unconfirmed address can sign in; in other modes it cannot', async () => {
    for (const mode of modes) {
      const server = (servers[mode] as () => TestServer)()
      const email = table.find(([, ones]) => ones.includes(mode) && ones.length > 1)?.[0]?.toLowerCase()
      if (mode === 'closed' || email === undefined) continue
      expect([mode, (await signIn(server, email)).status]).toEqual([mode, mode === 'open' ? 200 : 401])
      await confirm(server, email)
      expect([mode, (await signIn(server, email)).status]).toEqual([mode, 200])
    }
  })
})

describe('where only invited people can sign up', () => {
  const at = serverOf('invited')

  test('nobody learns whether an address is invited or has an account', async () => {
    const server = at()
    await invite(server, 'guest@acme.test')
    const emails = ['guest@acme.test', 'nobody@acme.test', server.identities.users.member.email]
    const signedUp = await Promise.all(emails.map((email) => signUp(server, email)))
    expect(told(signedUp[1] as Answer)).toEqual(told(signedUp[0] as Answer))
    expect(told(signedUp[2] as Answer)).toEqual(told(signedUp[0] as Answer))
    const signedIn = await Promise.all(emails.map((email) => signIn(server, email)))
    expect(told(signedIn[0] as Answer)).toMatchObject({ status: 401, code: 'INVALID_EMAIL_OR_PASSWORD' })
    expect(told(signedIn[1] as Answer)).toEqual(told(signedIn[0] as Answer))
    expect(told(signedIn[2] as Answer)).toEqual(told(signedIn[0] as Answer))
    for (const wrong of [{ name: 'A'.repeat(201) }, { password: 'short' }, { password: 7 }]) {
      const refused = await Promise.all(
        ['guest2@acme.test', 'nobody@acme.test'].map(async (email) => {
          if (email.startsWith('guest')) await invite(server, email)
          return signUp(server, email, wrong)
        }),
      )
      expect(refused[0]?.status).toBe(400)
      expect(told(refused[1] as Answer)).toEqual(told(refused[0] as Answer))
    }
  })

  test('the invited person confirms the address, signs in and joins', async () => {
    const server = at()
    const email = 'joins@acme.test'
    const { token } = await invite(server, email)
    const browser = new Browser(server)
    await browser.auth('sign-up/email', { name: 'Joins', email, password })
    const mail = () => sink.deliveries.findLast((each) => each.recipients.includes(email))
    await until('the mail that confirms', () => mail() !== undefined)
    const raw = (mail()?.raw ?? '').replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=')
    await browser.send('GET', `/api/auth/verify-email?token=${/token=([\w.-]+)/.exec(raw)?.[1]}`)
    expect((await browser.signIn(email, password)).status).toBe(200)
    expect((await browser.send('POST', '/invitations/accept', { token })).status).toBe(200)
  })

  test('who was invited invites nobody from outside, also as an owner and in an organization of their own', async () => {
    const server = at()
    const path = `/organizations/${server.identities.organization_id}`
    const join = async (email: string): Promise<Browser> => {
      const { token } = await invite(server, email)
      await server.context.pool.query('delete from auth_rate_limits')
      const { body } = await signUp(server, email, { invited: false })
      expect(body.user ?? {}).not.toHaveProperty('invited')
      await confirm(server, email)
      const browser = new Browser(server)
      await browser.signIn(email, password)
      expect((await browser.send('POST', '/invitations/accept', { token })).status).toBe(200)
      return browser
    }
    const guest = await join('chain@acme.test')
    await join('colleague@acme.test')
    await server.context.pool.query(
      `update memberships set role = 'owner' where user_id = (select id from users where email = 'chain@acme.test')`,
    )
    const own = (await guest.send('POST', '/organizations', { name: 'Own' })).body
    for (const [place, email, expected] of [
      [path, 'friend@acme.test', 409],
      [`/organizations/${own.id}`, 'friend@acme.test', 409],
      [`/organizations/${own.id}`, 'colleague@acme.test', 201],
    ] as const) {
      const { status } = await guest.send('POST', `${place}/invitations`, { email, send_mail: false })
      expect([place, email, status]).toEqual([place, email, expected])
    }
    await guest.send('POST', '/../auth/update-user', { invited: false })
    expect((await guest.send('POST', `${path}/invitations`, { email: 'friend@acme.test' })).status).toBe(409)
    // An invitation that was made while this was allowed admits nobody either.
    const { id } = await invite(server, 'friend@acme.test')
    await server.context.pool.query(
      `update invitations set invited_by = (select id from users where email = 'chain@acme.test') where id = $1`,
      [id],
    )
    await server.context.pool.query('delete from auth_rate_limits')
    await signUp(server, 'friend@acme.test')
    expect(await hasAccount(server, 'friend@acme.test')).toBe(false)
    Object.assign(server.context.config.people, { invitedMayInvite: true })
    try {
      const { status } = await guest.send('POST', `${path}/invitations`, { email: 'other@acme.test' })
      expect(status).toBe(201)
      await signUp(server, 'friend@acme.test')
      expect(await hasAccount(server, 'friend@acme.test')).toBe(true)
    } finally {
      Object.assign(server.context.config.people, { invitedMayInvite: false })
    }
  })

  test.each([
    ['revoked', 'update invitations set revoked_at = now() where id = $1'],
    ['accepted', 'update invitations set accepted_at = now() where id = $1'],
    ['expired', 'update invitations set expires_at = now() where id = $1'],
    [
      'from a person who is no longer an owner',
      `update memberships set role = 'admin' where role = 'owner' and exists (select from invitations where id = $1)`,
    ],
  ])('an invitation that is %s admits nobody', async (what, sql) => {
    const server = at()
    const email = `${what.replaceAll(' ', '-')}@acme.test`
    const { id } = await invite(server, email)
    await server.context.pool.query(sql, [id])
    expect((await signUp(server, email)).status).toBe(200)
    expect(await hasAccount(server, email)).toBe(false)
    const { owner } = server.identities.users
    await server.context.pool.query(`update memberships set role = 'owner' where user_id = $1`, [
      owner.user_id,
    ])
  })
})

describe('mails about accounts', () => {
  const at = serverOf('open')

  test('of one kind reach one address at most ten times, whoever causes them', async () => {
    const server = at()
    const email = server.identities.users.member.email
    let before = 0
    const count = (): number =>
      sink.deliveries.filter(
        (mail) => mail.recipients.includes(email) && mail.subject === 'You already have an account',
      ).length - before
    before = count()
    const log = server.context.log
    const warned = { count: 0 }
    const warn = log.warn.bind(log)
    log.warn = (...args: Parameters<typeof warn>) => {
      if (String(args[0]).includes('too many like it')) warned.count += 1
      warn(...args)
    }
    for (let n = 0; n < 12; n += 1) {
      await server.context.pool.query('delete from auth_rate_limits')
      await signUp(server, email)
    }
    await until('all were sent or refused', () => count() + warned.count >= 12)
    expect(count()).toBe(10)
    // Mails of other kinds are counted separately.
    await new Browser(server).auth('request-password-reset', { email })
    await until('a mail that resets', () =>
      sink.deliveries.some((mail) => mail.recipients.includes(email) && mail.subject === 'A new password'),
    )
  })
})
