import { describe, expect, test } from '@jest/globals'
import { SoftwarePasskey, withCertificate } from '../../support/software-passkey.ts'
import type { SmtpSink } from '../../support/smtp-sink.ts'
import { Browser } from '../browser.ts'
import type { TestServer } from '../server.ts'
import {
  confirmedPerson,
  eventTypesOf,
  mailTo,
  oldSession,
  password,
  resetOf,
  signedUp,
  useMailingServer,
  type SignedIn,
} from '../signed-in.ts'

/* Passkeys, with authenticators made of software. test/console/passkeys.test.ts uses them in a browser. */

const publicUrl = 'https://countersign.example'
let server: TestServer
let sink: SmtpSink
useMailingServer((...both) => ([server, sink] = both), { PUBLIC_URL: publicUrl })

const browser = () => new Browser(server)
const limitless = () => server.context.pool.query('delete from auth_rate_limits')
const codes = ({ status, body }: { status: number; body: { code?: string } }) =>
  `${status} ${body?.code ?? ''}`.trim()
const refused = '401 UNAUTHENTICATED'

async function begun(at: Browser, sent: object = { password }) {
  const options = await at.auth('passkey/begin', sent)
  expect(options.status).toBe(200)
  return options.body
}

/** Adds a passkey. */
async function added(at: Browser, name = 'Laptop'): Promise<SoftwarePasskey & { readonly row: string }> {
  const passkey = new SoftwarePasskey(publicUrl)
  const credential = passkey.create(await begun(at))
  const answer = await at.auth('passkey/add', { name, credential })
  expect(codes(answer)).toBe('200')
  return Object.assign(passkey, { row: answer.body.id as string })
}

async function signIn(passkey: SoftwarePasskey, at = browser(), lies = {}) {
  await limitless()
  const { body } = await at.auth('passkey/begin-sign-in', {})
  return at.auth('passkey/sign-in', { credential: passkey.get(body, lies) })
}

const openedWith = async (at: Browser): Promise<unknown> => {
  const { body } = await at.send('GET', '/me')
  return [body.session_opened_with, body.has_second_factor, body.user?.second_factor]
}

async function withPasskey(): Promise<SignedIn & { readonly passkey: Awaited<ReturnType<typeof added>> }> {
  const person = await confirmedPerson(server)
  return { ...person, passkey: await added(person.at) }
}

describe('a passkey', () => {
  test('is a second factor: the first one ends all other sessions, and a password opens none any more', async () => {
    const person = await confirmedPerson(server)
    const other = await person.signIn()
    const organization = (await person.at.send('GET', '/me')).body.organization_id
    const passkey = await added(person.at)
    expect(await openedWith(person.at)).toEqual(['passkey', true, true])
    expect((await other.send('GET', '/me')).status).toBe(401)
    const half = await person.halfSignIn()
    expect((await half.send('GET', '/me')).status).toBe(401)
    expect((await half.auth('two-factor/verify-totp', { code: '000000' })).status).toBe(400)
    expect((await half.auth('two-factor/verify-backup-code', { code: '000000' })).status).toBe(400)
    expect(codes(await signIn(passkey, half))).toBe('200')
    expect(await openedWith(half)).toEqual(['passkey', true, true])
    expect(await eventTypesOf(server, organization)).toEqual(
      expect.arrayContaining(['passkey.added', 'mfa.enabled']),
    )
    expect(await mailTo(sink, person.email, 'A passkey was added to your account')).toContain('Laptop')
  })

  test('signs in alone, without a word about accounts', async () => {
    const { passkey } = await withPasskey()
    const at = browser()
    expect(codes(await signIn(passkey, at))).toBe('200')
    expect(await openedWith(at)).toEqual(['passkey', true, true])
    const stranger = Object.assign(new SoftwarePasskey(publicUrl), { userHandle: passkey.userHandle })
    const unknown = await signIn(stranger)
    const wrong = await signIn(passkey, browser(), { origin: 'https://evil.example' })
    expect([codes(unknown), unknown.text]).toEqual([refused, wrong.text])
  })

  test('takes the place of a session that was opened without it', async () => {
    const { id, passkey } = await withPasskey()
    // Behind https, the names of cookies begin with `__Secure-`.
    const cookie = `__Secure-${(await oldSession(server, id)).cookie}`
    expect(codes(await browser().auth('passkey/begin', { password }, { cookie }))).toBe(
      '403 SECOND_FACTOR_REQUIRED',
    )
    const at = browser()
    const { body } = await at.auth('passkey/begin-sign-in', {})
    const both = { cookie: `${cookie}; ${at.cookie}` }
    expect(codes(await at.auth('passkey/sign-in', { credential: passkey.get(body) }, both))).toBe('200')
    expect(await openedWith(at)).toEqual(['passkey', true, true])
    expect((await browser().send('GET', '/me', undefined, { cookie })).status).toBe(401)
  })

  test.each<[string, object]>([
    ['another origin', { origin: 'https://evil.example' }],
    ['an origin below ours', { origin: 'https://x.countersign.example' }],
    ['another party', { rpId: 'evil.example' }],
    ['no check of the person', { isVerified: false }],
    ['a registration', { type: 'webauthn.create' }],
    ['the same counter', { counter: 1 }],
    ['a counter of nothing', { counter: 0 }],
    ['another person', { userHandle: Buffer.from('usr_01').toString('base64url') }],
  ])('signs nobody in for %s', async (_what, lies) => {
    const { passkey } = await withPasskey()
    expect(codes(await signIn(passkey))).toBe('200')
    expect(codes(await signIn(passkey, browser(), lies))).toBe(refused)
    expect(codes(await signIn(passkey))).toBe('200')
  })

  test('of two requests with one counter, only one signs in', async () => {
    const { passkey } = await withPasskey()
    const both = await Promise.all([browser(), browser()].map((at) => signIn(passkey, at, { counter: 7 })))
    expect(both.map(codes).toSorted()).toEqual(['200', refused])
  })

  test.each<[string, object]>([
    ['another origin', { origin: 'https://evil.example' }],
    ['another party', { rpId: 'evil.example' }],
    ['no check of the person', { isVerified: false }],
    ['a sign-in', { type: 'webauthn.get' }],
    ['a certificate, whose addresses somebody would have to ask', { attestation: withCertificate }],
  ])('is not added for %s', async (_what, lies) => {
    const { at } = await confirmedPerson(server)
    const credential = new SoftwarePasskey(publicUrl).create(await begun(at), lies)
    expect(codes(await at.auth('passkey/add', { name: 'x', credential }))).toBe(refused)
    expect(await openedWith(at)).toEqual(['password', false, false])
  })
})

describe('a challenge', () => {
  test('counts once, for five minutes, in the browser and for the act that began', async () => {
    const { at, passkey } = await withPasskey()
    const one = browser()
    const { body } = await one.auth('passkey/begin-sign-in', {})
    const { cookie } = one
    const credential = passkey.get(body)
    const send = (sent: object, headers?: Record<string, string>) =>
      browser().auth('passkey/sign-in', { credential: sent }, headers)
    // Another browser has another challenge, or none.
    const other = browser()
    await other.auth('passkey/begin-sign-in', {})
    expect(codes(await send(credential))).toBe(refused)
    expect(codes(await other.auth('passkey/sign-in', { credential }))).toBe(refused)
    expect(codes(await send(credential, { cookie }))).toBe('200')
    expect(codes(await send(passkey.get(body), { cookie }))).toBe(refused)
    // A challenge for adding signs nobody in, and that of another session adds nothing.
    const adding = await begun(at)
    expect(codes(await at.auth('passkey/sign-in', { credential: passkey.get(adding) }))).toBe(refused)
    await limitless()
    const second = browser()
    expect(codes(await signIn(passkey, second))).toBe('200')
    const elsewhere = await begun(second)
    const foreign = {
      cookie: `${at.cookie}; ${second.cookie.split('; ').find((each) => each.includes('challenge'))}`,
    }
    const made = new SoftwarePasskey(publicUrl).create(elsewhere)
    expect(codes(await at.auth('passkey/add', { name: 'x', credential: made }, foreign))).toBe(refused)
    // Simulates that five minutes have passed.
    await limitless()
    const late = browser()
    const options = (await late.auth('passkey/begin-sign-in', {})).body
    await server.context.pool.query(
      `update auth_verifications set expires_at = now() where identifier like 'passkey %'`,
    )
    expect(codes(await late.auth('passkey/sign-in', { credential: passkey.get(options) }))).toBe(refused)
  })

  test('needs the password, a confirmed address, and a session that is not a provider’s', async () => {
    const { at } = await confirmedPerson(server)
    expect(codes(await at.auth('passkey/begin', { password: 'a wrong password' }))).toBe(
      '400 INVALID_PASSWORD',
    )
    expect(codes(await browser().auth('passkey/begin', { password }))).toBe('401 UNAUTHORIZED')
    const stranger = await signedUp(server)
    expect(codes(await stranger.at.auth('passkey/begin', { password }))).toBe('403 EMAIL_NOT_VERIFIED')
    await server.context.pool.query(
      `update auth_sessions set opened_with = 'provider+factor', provider_organization = $1 where user_id =
       (select id from users where email = $2)`,
      [server.identities.organization_id, stranger.email],
    )
    for (const path of ['begin', 'add', 'rename', 'remove'])
      expect(codes(await stranger.at.auth(`passkey/${path}`, { password }))).toBe('403 SESSION_OF_PROVIDER')
  })
})

describe('the passkeys of a person', () => {
  test('are listed, renamed and removed by this person only; ten at most', async () => {
    const ana = await withPasskey()
    const ben = await withPasskey()
    const { row: id } = ana.passkey
    expect(codes(await ben.at.auth('passkey/rename', { id, name: 'Mine' }))).toBe('404 NOT_FOUND')
    expect(codes(await ben.at.auth('passkey/remove', { id, password }))).toBe('404 NOT_FOUND')
    expect(codes(await ana.at.auth('passkey/rename', { id, name: 'two\nlines' }))).toMatch(/^400/)
    expect(codes(await ana.at.auth('passkey/rename', { id, name: 'Phone' }))).toBe('200')
    const { body } = await ana.at.send('GET', '/api/auth/passkey/list')
    expect(body).toMatchObject({
      passkeys: [{ id, name: 'Phone', last_used_at: null }],
      authenticator_app: false,
    })
    // The same one again.
    const again = ana.passkey.create(await begun(ana.at))
    expect(codes(await ana.at.auth('passkey/add', { name: 'x', credential: again }))).toBe('409 CONFLICT')
    // If two are added at once, only one becomes the tenth.
    for (let count = 2; count <= 9; count += 1) {
      await limitless()
      await added(ana.at)
    }
    await limitless()
    const others = [ana.at, browser()]
    expect(codes(await signIn(ana.passkey, others[1]))).toBe('200')
    const options = [await begun(ana.at), await begun(others[1] as Browser)]
    const both = await Promise.all(
      options.map((each, index) =>
        (others[index] as Browser).auth('passkey/add', {
          name: 'Tenth',
          credential: new SoftwarePasskey(publicUrl).create(each),
        }),
      ),
    )
    expect(both.map(codes).toSorted()).toEqual(['200', '409 CONFLICT'])
    expect(codes(await ana.at.auth('passkey/begin', { password }))).toBe('409 CONFLICT')
  })

  test('a removed one signs nobody in, and the sessions that it opened end', async () => {
    const { at, email, passkey } = await withPasskey()
    const kept = await added(at)
    const elsewhere = browser()
    expect(codes(await signIn(passkey, elsewhere))).toBe('200')
    expect(codes(await at.auth('passkey/remove', { id: passkey.row, password: 'a wrong password' }))).toBe(
      '400 INVALID_PASSWORD',
    )
    expect(codes(await at.auth('passkey/remove', { id: passkey.row, password }))).toBe('200')
    expect((await elsewhere.send('GET', '/me')).status).toBe(401)
    expect(codes(await signIn(passkey))).toBe(refused)
    expect(codes(await signIn(kept))).toBe('200')
    await mailTo(sink, email, 'A passkey was removed from your account')
  })

  test('the last one that is removed is a factor that is given up, also under `require_mfa`', async () => {
    const { at, passkey, signIn: byPassword } = await withPasskey()
    const { body: acme } = await at.send('POST', '/organizations', { name: 'Acme' })
    const here = { 'x-organization-id': acme.id }
    expect(
      (await at.send('PATCH', `/organizations/${acme.id}/governance`, { require_mfa: true })).status,
    ).toBe(200)
    expect((await at.send('GET', '/runs', undefined, here)).status).toBe(200)
    expect((await at.send('GET', `/organizations/${acme.id}/members`)).body.data[0].second_factor).toBe(true)
    expect(codes(await at.auth('passkey/remove', { id: passkey.row, password }))).toBe('200')
    expect(await openedWith(at)).toEqual(['password', false, false])
    expect((await at.send('GET', '/runs', undefined, here)).body.error.code).toBe('mfa_required')
    expect((await (await byPassword()).send('GET', '/me')).status).toBe(200)
  })

  test('stay when the app is given up, and the app when they are', async () => {
    const person = await confirmedPerson(server)
    const { at, id } = person
    await at.enrol(password)
    const passkey = await added(at)
    expect(await openedWith(at)).toEqual(['password+totp', true, true])
    const other = browser()
    expect(codes(await signIn(passkey, other))).toBe('200')
    // A session by the app proves nothing without the app.
    expect((await other.auth('two-factor/disable', { password })).status).toBe(200)
    expect(await openedWith(other)).toEqual(['passkey', true, true])
    expect(await openedWith(at)).toEqual(['password', false, true])
    await limitless()
    const { key } = await other.enrol(password)
    expect(key).not.toBe('')
    await limitless()
    expect(codes(await other.auth('passkey/remove', { id: passkey.row, password }))).toBe('200')
    expect((await (await person.halfSignIn()).send('GET', '/me')).status).toBe(401)
    const { rows } = await server.context.pool.query('select two_factor_enabled from users where id = $1', [
      id,
    ])
    expect(rows).toEqual([{ two_factor_enabled: true }])
  })

  test('do not make valid an app that somebody with the password began to add', async () => {
    const person = await confirmedPerson(server)
    const thief = await person.signIn()
    const { backupCodes } = (await thief.auth('two-factor/enable', { password })).body
    await added(person.at)
    const half = await person.halfSignIn()
    expect((await half.auth('two-factor/verify-backup-code', { code: backupCodes[0] })).status).toBe(400)
  })

  test('cannot be added by a session that a new password has ended', async () => {
    const { at, email, id } = await confirmedPerson(server)
    const credential = new SoftwarePasskey(publicUrl).create(await begun(at))
    const set = await resetOf(server, sink, email)
    expect((await set('a better password')).status).toBe(200)
    expect((await at.auth('passkey/add', { name: 'x', credential })).status).toBe(401)
    const { rows } = await server.context.pool.query('select from auth_passkeys where user_id = $1', [id])
    expect(rows).toEqual([])
  })

  test('are not for service accounts', async () => {
    await expect(
      server.context.pool
        .query(
          `insert into service_accounts (id, organization_id, name, created_by, created_at)
           select id, $1, 'x', id, now() from users where id = $2`,
          [server.identities.organization_id, server.identities.users.viewer.user_id],
        )
        .then(() =>
          server.context.pool.query(
            `insert into auth_passkeys (id, user_id, credential_id, public_key, counter, name, created_at)
             values ('pk_x', $1, 'x', '', 0, 'x', now())`,
            [server.identities.users.viewer.user_id],
          ),
        ),
    ).rejects.toThrow('a service account cannot sign in')
  })
})

test('an owner signs in past the provider that the organization requires, and the audit log says so', async () => {
  const { at, passkey } = await withPasskey()
  const { body: acme } = await at.send('POST', '/organizations', { name: 'Acme' })
  await server.context.pool.query(
    `update organizations set settings = '{"require_sso": true}' where id = $1`,
    [acme.id],
  )
  const owner = browser()
  expect(codes(await signIn(passkey, owner))).toBe('200')
  expect((await owner.send('GET', '/runs', undefined, { 'x-organization-id': acme.id })).status).toBe(200)
  expect(await eventTypesOf(server, acme.id)).toContain('session.beside_provider')
})
