import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { splitKey } from '../../src/api/access.ts'
import { routes } from '../../src/api/routes/index.ts'
import { Browser } from './browser.ts'
import { startPages, type PagesHome } from './console/pages-home.ts'
import { formOf } from './fixtures.ts'
import { plantedLogs, secret } from './planted.ts'

/*
 * Secrets in the parts of requests that have no form in openapi.json: sign-in, forms of the console, uploaded files,
 * paths and headers. No log and no metric shows them.
 */

const logs = plantedLogs()
let home: PagesHome
/** The browser of a member. */
let signed: Browser
let key: string
beforeAll(async () => {
  home = await startPages(logs.env)
  const { email: address, password } = home.server.identities.users.member
  signed = new Browser(home.server)
  await signed.signIn(address, password)
  key = home.server.identities.users.owner.api_key
})
afterAll(async () => {
  await home?.server.close()
  logs.remove()
})
// All requests come from one address. A request over its limit would not be read.
beforeEach(() => home.server.context.pool.query('delete from auth_rate_limits'))

const email = `${secret}@acme.test`

/** What people do who are not signed in. */
const ofStrangers = new Set(['sign-up/email', 'sign-in/email', 'request-password-reset', 'reset-password'])

test.each<[string, Readonly<Record<string, unknown>>]>([
  ['sign-up/email', { name: 'Ana', email: 'ana@acme.test', password: 'correct horse battery', image: 'x', callbackURL: '/' }],
  ['sign-in/email', { email: 'ana@acme.test', password: 'correct horse battery', callbackURL: '/', rememberMe: true }],
  ['request-password-reset', { email: 'ana@acme.test', redirectTo: '/console/reset-password' }],
  ['reset-password', { token: 't', newPassword: 'correct horse battery' }],
  ['send-verification-email', { email: 'ana@acme.test', callbackURL: '/' }],
  ['change-password', { currentPassword: 'x', newPassword: 'correct horse battery', revokeOtherSessions: true }],
  ['change-email', { newEmail: 'ana@acme.test', callbackURL: '/' }],
  ['update-user', { name: 'Ana', image: 'x' }],
  ['revoke-session', { token: 't' }],
  ['two-factor/enable', { password: 'x', issuer: 'x' }],
  ['two-factor/disable', { password: 'x' }],
  ['two-factor/verify-totp', { code: '000000', trustDevice: true }],
  ['two-factor/verify-backup-code', { code: '000000' }],
  ['two-factor/generate-backup-codes', { password: 'x' }],
  ['sign-out', {}],
  [`no-such/${secret}`, { password: 'x' }],
])('in the body of /api/auth/%s', async (path, body) => {
  const strange = { planted: secret, deep: [secret] }
  const bodies = [
    ...Object.keys(body).flatMap((name) =>
      [secret, email, strange].map((each) => ({ ...body, [name]: each })),
    ),
    { ...body, no_such_field: secret },
    [secret],
    secret,
  ]
  for (const each of bodies) {
    await home.server.context.pool.query('delete from auth_rate_limits')
    await (ofStrangers.has(path) ? new Browser(home.server) : signed).auth(path, each)
  }
  const query = `token=${secret}&callbackURL=%2F${secret}&error=${secret}`
  await new Browser(home.server).auth(`${path}?${query}`, body)
  await signed.send('GET', `/api/auth/${path}?${query}`)
}) // prettier-ignore

test('in the link of a mail', () =>
  new Browser(home.server).send('GET', `/api/auth/verify-email?token=${secret}&callbackURL=%2F${secret}`))

const fields = [
  'token', 'email', 'name', 'password', 'code', 'method', 'return', 'organization_id', 'action', 'reason', 'comment', 'decision',
  'once', 'outcome', 'output', 'attempt', 'item', 'items', 'delay', 'account', 'channel', 'no_such_field',
] // prettier-ignore

test('in the forms and queries of the console', async () => {
  const approvalId = await home.held({ command: `git push ${secret}` })
  const { agent_session_id: sessionId } = await home.approvalOf(approvalId)
  const pages = [
    '', 'sign-in', 'sign-in/code', 'sign-up', 'reset-password', 'confirm-address', 'invitation', 'second-factor', 'account',
    'organization', `approvals/${approvalId}`, `approvals/${secret}`, `runs/${secret}`, `runs/${secret}/steps/${secret}`,
    `sessions/${sessionId}`, `sessions/${secret}`, `receipts/${secret}`, `no-such/${secret}`, 'sign-out',
  ] // prettier-ignore
  const token = await home.tokenOf(`/console/approvals/${approvalId}`)
  const query = fields.map((name) => `${name}=${secret}`).join('&')
  for (const page of pages) {
    await home.server.context.pool.query('delete from auth_rate_limits')
    const path = `/console/${page}`
    await home.get(`${path}?${query}`)
    await home.get(`${path}?${query}`, `countersign=${secret}`)
    const all = Object.fromEntries(fields.map((name) => [name, secret]))
    for (const form of [
      all,
      { ...all, token },
      { ...all, token, email },
      { token, decision: 'reject', comment: secret, once: secret },
    ])
      await home.post(path, form)
    await home.post(path, all, {}, '')
  }
  expect(await home.approvalOf(approvalId)).toMatchObject({
    status: 'rejected',
    votes: [{ comment: secret }],
  })
})

test('in the name, the content and the labels of a file', async () => {
  const forms = [
    formOf(`${secret}.txt`, `text ${secret}`, 'pii'),
    formOf(`${secret}.csv`, `a,b\n"${secret}`, secret),
    formOf(`${secret}.pdf`, `%PDF-1.7 ${secret}`),
    formOf(`${secret}.docx`, `PK${secret}`),
    formOf(`${secret}.xlsx`, secret),
    formOf(`${secret}.exe`, secret),
    formOf(`${secret.repeat(20)}.txt`, secret, 'Not A Label ' + secret),
  ]
  const strange = new FormData()
  strange.append(secret, secret)
  const statuses: number[] = []
  for (const form of [...forms, strange])
    statuses.push((await home.server.call(key, 'POST', '/files', form)).status)
  expect(statuses).toContain(201)
  expect(Math.max(...statuses)).toBeLessThan(500)
  const broken = { 'content-type': `multipart/form-data; boundary=${secret}` }
  expect((await home.server.call(key, 'POST', '/files', `--${secret}\r\n${secret}`, broken)).status).toBe(400)
})

/** `X-Request-Id` is left out: it is there to be logged. */
const headers = [
  'accept', 'accept-language', 'authorization', 'content-type', 'cookie', 'forwarded', 'idempotency-key', 'if-none-match',
  'last-event-id', 'origin', 'referer', 'sec-fetch-site', 'traceparent', 'user-agent', 'x-api-key', 'x-forwarded-for',
  'x-forwarded-host', 'x-forwarded-proto', 'x-organization-id', 'x-real-ip',
] // prettier-ignore

test.each(headers)('in the header `%s`', async (name) => {
  for (const value of [secret, `Bearer ${secret}`, `a=${secret}; countersign.session_token=${secret}`, `https://${secret}.test/`]) {
    await home.server.call(key, 'GET', '/me', undefined, { [name]: value })
    await home.server.call(key, 'POST', '/workflows', { name: secret }, { [name]: value })
    await fetch(`${home.server.base}/console/`, { headers: { [name]: value }, redirect: 'manual' })
  }
}) // prettier-ignore

test('in each part of each path', async () => {
  const places = routes.filter((route) => route.key.includes('{'))
  expect(places.length).toBeGreaterThan(50)
  for (const { key: route } of places) {
    const { method, path } = splitKey(route)
    const names = path.match(/\{\w+\}/g) ?? []
    for (const name of names) {
      const named = path.replace(name, secret).replaceAll(/\{\w+\}/g, home.server.identities.organization_id)
      const answer = await home.server.call(
        key,
        method,
        named,
        method === 'GET' || method === 'DELETE' ? undefined : {},
      )
      expect([route, answer.status < 500]).toEqual([route, true])
    }
  }
  const { status } = await fetch(`${home.server.base}/no/such/${secret}`)
  expect(status).toBe(404)
})

test('no log and no metric shows them', () => logs.expectNone(home.server, 20))
