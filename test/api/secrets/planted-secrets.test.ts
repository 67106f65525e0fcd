import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { z } from 'zod'
import { splitKey } from '../../../src/api/route.ts'
import type { GuardedKey } from '../../../src/api/routes/index.ts'
import { routes } from '../../../src/api/routes/index.ts'
import { addOrganization, addPerson, formOf } from '../fixtures.ts'
import type { TestServer } from '../server.ts'
import { validRequests } from '../access-matrix/valid-requests.ts'
import { addPlace, type Place } from '../access-matrix/place.ts'
import { World } from '../access-matrix/world.ts'
import { Browser } from '../browser.ts'
import { type PagesHome, startPages } from '../console/pages-home.ts'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The secret that tests put into requests. No log and no metric may show it. */
const secret = 's3cr3t-planted-7f3a9c'

/*
 * Puts a secret into every text of every request. The texts are each field of the body and the query, fields that do
 * not exist, the key and the `Idempotency-Key`. No log and no metric may show the secret. An error answer repeats the
 * names of fields, so that the sender finds a typing error, but never their values. The other parts of requests
 * are below.
 */

const logs = mkdtempSync(join(tmpdir(), 'countersign-planted-'))

let home: PagesHome
let server: TestServer
let place: Place
/** The browser of a member. */
let signed: Browser
let key: string
beforeAll(async () => {
  home = await startPages({ LOG_LEVEL: 'debug', LOG_DIR: logs })
  server = home.server
  const { email: address, password } = server.identities.users.member
  signed = new Browser(server)
  await signed.signIn(address, password)
  key = server.identities.users.owner.api_key
  const { id, owner } = await addOrganization(server.context)
  place = await addPlace(server, id, owner)
})
afterAll(async () => {
  await server?.close()
  rmSync(logs, { recursive: true, force: true })
})
// All requests come from one address. A request over its limit would not be read.
const resetLimits = () => server.context.pool.query('delete from auth_rate_limits')

type Way = readonly (string | number)[]

/** The paths to all texts in a value. */
function textsIn(value: unknown, way: Way = []): Way[] {
  if (typeof value === 'string') return [way]
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, each]) => textsIn(each, [...way, name]))
}

function withSecretAt(value: unknown, [name, ...rest]: Way): unknown {
  if (name === undefined) return secret
  const copy = Array.isArray(value) ? [...(value as unknown[])] : { ...(value as object) }
  return Object.assign(copy, {
    [name]: withSecretAt((value as Record<string, unknown>)[String(name)], rest),
  })
}

interface Planted {
  /** The name of the field that contains the secret. */
  readonly field: string
  readonly query: string
  readonly body: unknown
  readonly key?: string
}

interface Form {
  readonly body: unknown
  readonly query: string
  /** All fields of the body, and one field that does not exist. */
  readonly fields: readonly string[]
  /** All parameters of the query, and one parameter that does not exist. */
  readonly parameters: readonly string[]
}

/** The body, if requests of this method have one. */
const ifSent = (method: string, body: unknown): unknown =>
  method === 'GET' || method === 'DELETE' ? undefined : body

/** One request for each text in the body and the query, and for each field that should not be a text. */
function* planted({ body, query, fields, parameters }: Form): Generator<Planted> {
  for (const way of textsIn(body)) yield { field: way.join('.'), query, body: withSecretAt(body, way) }
  for (const name of fields)
    for (const each of [secret, { planted: secret, deep: [secret] }])
      yield { field: name, query, body: { ...(body as object), [name]: each } }
  for (const each of [secret, [secret]]) yield { field: 'the body', query, body: each }
  for (const name of parameters) yield { field: `?${name}`, query: `${name}=${secret}`, body }
  yield { field: 'the key', query, body, key: secret }
}

/**
 * Fields whose wrong value an error answer repeats to its sender. They contain names of things that do not exist or
 * exist already, addresses that cannot be invited, and values that must come from a fixed list.
 */
const names =
  /(^|\.|\?)(tools?|tool_name|scopes|session_id|organization_id|name|role|status|verdict|outcome|approver|approval_required_from|default_tool_access|default_agent_access|keep_decision_params|run_values|loosening|deputy|role_map|default_role|kind|mine|decided|people|table|include_archived|all|period|scope|risk|channel|state|order|events|emails|from|version|on_repeat|unknown_outcomes)(\.\d+)?$/

const namesOf = (schema: z.ZodType | undefined): string[] => [
  ...(schema instanceof z.ZodObject ? Object.keys(schema.shape) : []),
  'no_such_field',
]

test.each(Object.keys(validRequests) as GuardedKey[])('%s', async (key) => {
  const { method, path } = splitKey(key)
  const sender = await addPerson(server.context, place.organizationId, 'owner')
  const world = new World(server, place, sender)
  const { ids = {}, body = {}, query = '' } = await validRequests[key].prepare(world)
  const named = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? place.organizationId)
  const route = routes.find((each) => each.key === key)
  const parameters = [...namesOf(route?.query), 'organization_id']
  const repeated: string[] = []
  for (const each of planted({ body, query, fields: namesOf(route?.body), parameters })) {
    const sent = ifSent(method, each.body)
    const headers = { 'idempotency-key': secret }
    const answer = await server.call(each.key ?? sender.key, method, `${named}?${each.query}`, sent, headers)
    if (answer.status >= 400 && answer.text.includes(secret) && !names.test(each.field))
      repeated.push(`${each.field}: ${answer.text}`)
  }
  expect(repeated).toEqual([])
})

describe('secrets elsewhere', () => {
  beforeEach(resetLimits)

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
  ['passkey/begin', { password: 'x' }],
  ['passkey/add', { name: 'x', credential: {} }],
  ['passkey/sign-in', { credential: {} }],
  ['passkey/rename', { id: 'x', name: 'x' }],
  ['passkey/remove', { id: 'x', password: 'x' }],
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
    await resetLimits()
    await (ofStrangers.has(path) ? new Browser(server) : signed).auth(path, each)
  }
  const query = `token=${secret}&callbackURL=%2F${secret}&error=${secret}`
  await new Browser(server).auth(`${path}?${query}`, body)
  await signed.send('GET', `/api/auth/${path}?${query}`)
}) // prettier-ignore

  test('in the link of a mail', () =>
    new Browser(server).send('GET', `/api/auth/verify-email?token=${secret}&callbackURL=%2F${secret}`))

  const fields = [
  'token', 'email', 'name', 'password', 'code', 'method', 'return', 'organization_id', 'action', 'reason', 'comment', 'decision',
  'once', 'outcome', 'output', 'attempt', 'item', 'items', 'delay', 'account', 'channel', 'no_such_field',
] // prettier-ignore

  test('in the forms and queries of the console', async () => {
    const approvalId = await home.held({ command: `git push ${secret}` })
    const { agent_session_id: sessionId } = await home.approvalOf(approvalId)
    const pages = [
    '', 'sign-in', 'sign-in/code', 'sign-up', 'reset-password', 'confirm-address', 'invitation', 'second-factor', 'account', 'account/sessions',
    'organization', `approvals/${approvalId}`, `approvals/${secret}`, `runs/${secret}`, `runs/${secret}/steps/${secret}`,
    `sessions/${sessionId}`, `sessions/${secret}`, `receipts/${secret}`, `no-such/${secret}`, 'sign-out',
  ] // prettier-ignore
    const token = await home.tokenOf(`/console/approvals/${approvalId}`)
    const query = fields.map((name) => `${name}=${secret}`).join('&')
    for (const page of pages) {
      await resetLimits()
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
      ...['xlsx', 'exe'].map((end) => formOf(`${secret}.${end}`, secret)),
      formOf(`${secret.repeat(20)}.txt`, secret, 'Not A Label ' + secret),
    ]
    const strange = new FormData()
    strange.append(secret, secret)
    const statuses: number[] = []
    for (const form of [...forms, strange])
      statuses.push((await server.call(key, 'POST', '/files', form)).status)
    expect(statuses).toContain(201)
    expect(Math.max(...statuses)).toBeLessThan(500)
    const broken = { 'content-type': `multipart/form-data; boundary=${secret}` }
    expect((await server.call(key, 'POST', '/files', `--${secret}\r\n${secret}`, broken)).status).toBe(400)
  })

  /** `X-Request-Id` is left out: it is there to be logged. */
  const headers = [
  'accept', 'accept-language', 'authorization', 'content-type', 'cookie', 'forwarded', 'idempotency-key', 'if-none-match',
  'last-event-id', 'origin', 'referer', 'sec-fetch-site', 'traceparent', 'user-agent', 'x-api-key', 'x-forwarded-for',
  'x-forwarded-host', 'x-forwarded-proto', 'x-organization-id', 'x-real-ip',
] // prettier-ignore

  test.each(headers)('in the header `%s`', async (name) => {
  for (const value of [secret, `Bearer ${secret}`, `a=${secret}; countersign.session_token=${secret}`, `https://${secret}.test/`]) {
    await server.call(key, 'GET', '/me', undefined, { [name]: value })
    await server.call(key, 'POST', '/workflows', { name: secret }, { [name]: value })
    await fetch(`${server.base}/console/`, { headers: { [name]: value }, redirect: 'manual' })
  }
}) // prettier-ignore

  test('in each part of each path', async () => {
    const places = routes.filter((route) => route.key.includes('{'))
    expect(places.length).toBeGreaterThan(50)
    for (const { key: route } of places) {
      const { method, path } = splitKey(route)
      const names = path.match(/\{\w+\}/g) ?? []
      for (const name of names) {
        const named = path.replace(name, secret).replaceAll(/\{\w+\}/g, server.identities.organization_id)
        const answer = await server.call(key, method, named, ifSent(method, {}))
        expect([route, answer.status < 500]).toEqual([route, true])
      }
    }
    const { status } = await fetch(`${server.base}/no/such/${secret}`)
    expect(status).toBe(404)
  })
})

test('no log and no metric shows a secret', async () => {
  const files = readdirSync(logs).map((name) => readFileSync(join(logs, name), 'utf8'))
  const lines = files.flatMap((text) => text.split('\n'))
  expect(lines.length).toBeGreaterThan(70)
  expect(lines.filter((line) => line.includes(secret))).toEqual([])
  expect(await server.context.metrics.text()).not.toContain(secret)
})
