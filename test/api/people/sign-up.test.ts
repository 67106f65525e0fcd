import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import type { SmtpSink } from '../../support/smtp-sink.ts'
import { until } from '../../stack/until.ts'
import { type ScriptedServer, startScriptedServer } from '../../support/scripted-server.ts'
import { connectSlack } from '../../governance/notifications/people.ts'
import { waitsForLock } from '../../governance/support.ts'
import { Browser } from '../browser.ts'
import type { Answer, TestServer } from '../server.ts'
import { addKey, addOrganization } from '../fixtures.ts'
import { laterCode, mailTo, password, resetOf, signedUp, tokenIn, useMailingServer } from '../signed-in.ts'
import { codeOf } from '../use-server.ts'

describe('an installation', () => {
  let sink: SmtpSink
  /** Starts a server in this mode for the tests of one `describe`. */
  function serverOf(mode: string): () => TestServer {
    let server: TestServer
    useMailingServer((...both) => ([server, sink] = both), { SIGN_UP: mode })
    return () => server
  }

  const signUp = (server: TestServer, email: string, more: object = {}) =>
    new Browser(server).auth('sign-up/email', { name: 'Ana', email, password, ...more })
  const signIn = (server: TestServer, email: string) => new Browser(server).signIn(email, password)

  async function hasAccount({ context: { pool } }: TestServer, email: string): Promise<boolean> {
    return (await pool.query('select from users where email = $1', [email.toLowerCase()])).rowCount === 1
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
      /** Sends this for each address, and returns the only answer. */
      const answerOf = async (send: (email: string) => Promise<Answer>) => {
        const [first, ...others] = (await Promise.all(emails.map(send))).map(told)
        for (const other of others) expect(other).toEqual(first)
        return first
      }
      const long = { name: 'A'.repeat(201) }
      for (const wrong of [long, { name: 'A\nB' }, { password: 'short' }, { password: 7 }]) {
        expect(await answerOf((email) => signUp(server, email, wrong))).toMatchObject({ status: 400 })
        await server.context.pool.query('delete from auth_rate_limits')
      }
      expect(await answerOf((email) => signUp(server, email))).toMatchObject({ status: 200 })
      const unknown = { status: 401, code: 'INVALID_EMAIL_OR_PASSWORD' }
      expect(await answerOf((email) => signIn(server, email))).toMatchObject(unknown)
    })

    test('the invited person confirms the address, signs in and joins', async () => {
      const server = at()
      const email = 'joins@acme.test'
      const { token } = await invite(server, email)
      const browser = new Browser(server)
      await browser.auth('sign-up/email', { name: 'Joins', email, password })
      const confirming = tokenIn(await mailTo(sink, email, 'Confirm your address'))
      await browser.send('GET', `/api/auth/verify-email?token=${confirming}`)
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
      const friend = { email: 'friend@acme.test' }
      expect((await guest.send('POST', `${path}/invitations`, friend)).status).toBe(409)
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
      const { user_id: owner } = server.identities.users.owner
      await server.context.pool.query(`update memberships set role = 'owner' where user_id = $1`, [owner])
    })
  })

  describe('mails about accounts', () => {
    const at = serverOf('open')

    test('of one kind reach one address at most ten times, whoever causes them', async () => {
      const server = at()
      const email = server.identities.users.member.email
      const count = (subject: string): number =>
        sink.deliveries.filter((mail) => mail.recipients.includes(email) && mail.subject === subject).length
      const exists = 'You already have an account'
      const warn = jest.spyOn(server.context.log, 'warn')
      const refused = () =>
        warn.mock.calls.filter(([line]) => String(line).includes('too many like it')).length
      for (let n = 0; n < 12; n += 1) {
        await server.context.pool.query('delete from auth_rate_limits')
        await signUp(server, email)
      }
      await until('all were sent or refused', () => count(exists) + refused() >= 12)
      warn.mockRestore()
      expect(count(exists)).toBe(10)
      // Mails of other kinds are counted separately.
      await resetOf(server, sink, email)
    })
  })
})

/*
 * Somebody who signs up with another person's address must lose everything when the owner of that address confirms it.
 */

let sink: SmtpSink
let server: TestServer
useMailingServer((...both) => ([server, sink] = both))

/** Plays GitHub, and receives the requests of webhooks. */
let stranger: ScriptedServer
beforeAll(async () => {
  stranger = await startScriptedServer()
  stranger.answer = () => ({ status: 200, body: { login: 'stranger' } })
})
afterAll(() => stranger?.close())

/** Requests that prepare something for later, in the organization `organizationId` of the person `id`. */
const requests: Record<string, (organizationId: string, id: string) => [string, string, object]> = {
  'a key': () => ['POST', '/api-keys', { name: 'later', scopes: ['runs:read'] }],
  'an invitation': (organizationId) => [
    'POST',
    `/organizations/${organizationId}/invitations`,
    { email: 'x@acme.test' },
  ],
  'a webhook': (organizationId) => ['POST', `/organizations/${organizationId}/webhooks`, webhookTo('/hook')],
  'a connection': () => [
    'POST',
    '/tools/github_get_issue/connect',
    { scope: 'personal', credential: { token: 'ghp_x', base_url: stranger.url } },
  ],
  'a Slack account': (organizationId, id) => [
    'PUT',
    `/organizations/${organizationId}/members/${id}/accounts/slack`,
    { external_id: 'U0STRANGER' },
  ],
}
const webhookTo = (path: string) => ({ url: stranger.url + path, events: ['run.completed'] })
/** A person whose address is not confirmed, and one of these requests in an organization of theirs. */
async function withRequest(requestIn: (organizationId: string, id: string) => [string, string, object]) {
  const { at, id } = await signedUp(server)
  const { body: acme } = await at.send('POST', '/organizations', { name: 'Acme' })
  const caller = () => ({ userId: server.identities.users.owner.user_id })
  await connectSlack({ context: server.context, organizationId: acme.id, caller })
  return { at, id, send: () => at.send(...requestIn(acme.id, id)) }
}
/** How many rows of a table are about this person or organization. */
const rowsOf = async (table: string, id: string): Promise<number> =>
  (await server.context.pool.query(`select from ${table}`, [id])).rowCount ?? -1
/** How many things are prepared for this person. */
const madeBy = async (id: string): Promise<number> =>
  (await rowsOf('api_keys where user_id = $1', id)) +
  (await rowsOf('invitations where invited_by = $1', id)) +
  (await rowsOf('webhooks where created_by = $1', id)) +
  (await rowsOf('connections where created_by = $1', id)) +
  (await rowsOf('slack_claims where user_id = $1', id))
const setConfirmed = (id: string, is: boolean) =>
  server.context.pool.query('update users set email_verified = $2 where id = $1', [id, is])
const own = 'chosen by the owner'
const reset = async (email: string): Promise<void> => {
  const set = await resetOf(server, sink, email)
  expect((await set(own)).status).toBe(200)
}
const follow = async (email: string, at: Browser) =>
  at.send('GET', `/api/auth/verify-email?token=${tokenIn(await mailTo(sink, email, 'Confirm your address'))}`)
const proofs = {
  'a reset by mail': reset,
  'the mailed link': (email: string) => follow(email, new Browser(server)),
}

describe('before the address is confirmed', () => {
  test.each(Object.entries(requests))('%s is refused, and made afterwards', async (_, requestIn) => {
    const { id, send } = await withRequest(requestIn)
    const refused = await send()
    expect(codeOf(refused)).toBe('409 conflict')
    expect(refused.body.error.message).toMatch(/^confirm your address first/)
    expect(await madeBy(id)).toBe(0)
    await setConfirmed(id, true)
    expect([200, 201]).toContain((await send()).status)
    expect(await madeBy(id)).toBe(1)
  })

  test('a second factor is refused', async () => {
    const { at } = await signedUp(server)
    const { status, body } = await at.auth('two-factor/enable', { password })
    expect([status, body.code]).toEqual([403, 'EMAIL_NOT_VERIFIED'])
  })

  test('no webhook is changed, but it can be deleted', async () => {
    const { at, id } = await signedUp(server)
    await setConfirmed(id, true)
    const path = `/organizations/${(await at.send('GET', '/me')).body.organization_id}/webhooks`
    const { body: webhook } = await at.send('POST', path, webhookTo('/hook'))
    await setConfirmed(id, false)
    const one = `${path}/${webhook.id}`
    expect((await at.send('PATCH', one, { url: `${stranger.url}/other` })).status).toBe(409)
    expect((await at.send('POST', `${one}/rotate-secret`, {})).status).toBe(409)
    expect((await at.send('GET', one)).body.url).toBe(`${stranger.url}/hook`)
    expect((await at.send('DELETE', one)).status).toBe(204)
  })

  test.each(['two-factor/enable/', '/two-factor/enable', 'two-factor%2Fenable', 'Two-Factor/Enable'])(
    'nor by another spelling: %s',
    async (path) => {
      const { at, id } = await signedUp(server)
      expect((await at.auth(path, { password })).status).not.toBe(200)
      expect(await rowsOf('auth_two_factors where user_id = $1', id)).toBe(0)
    },
  )
})

describe('while the address is being confirmed', () => {
  test.each(Object.entries(requests))('%s is refused', async (_, requestIn) => {
    const { id, send } = await withRequest(requestIn)
    const { pool } = server.context
    const proof = await pool.connect()
    try {
      await proof.query('begin')
      await proof.query('update users set email_verified = true where id = $1', [id])
      const answer = send()
      await waitsForLock(server.adminUrl)
      await proof.query('delete from auth_sessions where user_id = $1', [id])
      await proof.query('commit')
      expect((await answer).status).toBe(409)
    } finally {
      proof.release(true)
    }
    expect(await madeBy(id)).toBe(0)
  })
})

describe.each(Object.entries(proofs))('%s confirms it, and', (_, prove) => {
  test('confirming ends earlier sessions, half sign-ins, factors, trusted devices and keys, audited', async () => {
    const { at, email, id } = await signedUp(server)
    const { context } = server
    const other = await addOrganization(context)
    const key = await addKey(context, other.id, id, ['runs:read'])
    await context.pool.query(
      `insert into auth_two_factors (id, user_id, secret, backup_codes) values ($1, $1, 'x', 'x')`,
      [id],
    )
    await context.pool.query('update users set two_factor_enabled = true where id = $1', [id])
    const trusted =
      'insert into auth_verifications (id, identifier, value, expires_at) values ($1, $2, $3, $4)'
    await context.pool.query(trusted, [id, 'trust-device-x', id, new Date(Date.now() + 60_000)])
    await prove(email)
    expect((await at.send('GET', '/me')).status).toBe(401)
    expect((await server.call(key.secret, 'GET', '/me')).status).toBe(401)
    const { rows } = await context.pool.query(
      `select (select count(*)::int from auth_two_factors where user_id = u.id) as factors,
              (select count(*)::int from auth_verifications where value = u.id) as waiting,
              u.two_factor_enabled, u.email_verified from users u where id = $1`,
      [id],
    )
    expect(rows).toEqual([{ factors: 0, waiting: 0, two_factor_enabled: false, email_verified: true }])
    // Account events are recorded by the next request that changes an account.
    await at.auth('sign-out', {})
    const entries = await context.db
      .selectFrom('audit_events')
      .select('canonical')
      .where('organization_id', '=', other.id)
      .where('event_type', '=', 'api_key.revoked')
      .execute()
    expect(entries.map((entry) => JSON.parse(entry.canonical).metadata.key_id)).toEqual([key.id])
  })

  test('it does so once: later sessions and keys stay', async () => {
    const { email, id } = await signedUp(server)
    await prove(email)
    const { context } = server
    const { id: organization } = await addOrganization(context)
    const key = await addKey(context, organization, id, ['runs:read'])
    await reset(email)
    const at = new Browser(server)
    expect((await at.signIn(email, own)).status).toBe(200)
    expect((await server.call(key.secret, 'GET', '/me')).status).toBe(200)
    const { key: factor } = await at.enrol(own)
    expect(factor).not.toBe('')
    expect((await at.send('POST', '/api-keys', { name: 'mine', scopes: ['runs:read'] })).status).toBe(201)
    await reset(email)
    expect((await new Browser(server).signIn(email, own)).body.twoFactorRedirect).toBe(true)
  })
})

test('the browser that follows the link stays signed in', async () => {
  const { at, email, signIn } = await signedUp(server)
  const elsewhere = await signIn()
  expect((await follow(email, at)).status).toBe(200)
  expect((await at.send('GET', '/me')).body.user.email_verified).toBe(true)
  expect((await elsewhere.send('GET', '/me')).status).toBe(401)
})

test('a reset ends a sign-in that waits for its second factor', async () => {
  const { at, email, halfSignIn } = await signedUp(server)
  await follow(email, at)
  const { key } = await at.enrol(password)
  const half = await halfSignIn()
  await reset(email)
  expect((await half.auth('two-factor/verify-totp', { code: laterCode(key) })).status).toBe(401)
})
