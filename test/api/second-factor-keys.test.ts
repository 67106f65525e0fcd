import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { Browser } from './browser.ts'
import { addKey, addOrganization, addPerson, requireFactors, sessionCookie } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'
import { password, confirmedPerson, oldSession, eventTypesOf } from './signed-in.ts'

/* How keys are confirmed with a second factor. */

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())
beforeEach(() => server.context.pool.query('delete from auth_rate_limits'))

describe('a key', () => {
  /** An organization that requires a second factor, its owner, and an older session of the owner. */
  async function required() {
    const { at, id } = await confirmedPerson(server)
    const { key: appKey } = await at.enrol(password)
    const { body: acme } = await at.send('POST', '/organizations', { name: 'Acme' })
    const old = await oldSession(server, id)
    const make = async (send: typeof old.send, scopes: string[]) => {
      const { status, body } = await send('POST', '/api-keys', {
        name: 'k',
        scopes,
        organization_id: acme.id,
      })
      expect(status).toBe(201)
      return body as { id: string; api_key: string; needs_confirmation: boolean }
    }
    const makers = {
      old: await make(old.send, ['api_keys:*', 'runs:read']),
      at: await make((...request) => at.send(...request), ['api_keys:*', 'runs:read']),
    }
    const governance = `/organizations/${acme.id}/governance`
    return { at, id, appKey, acme, old, makers, governance, make }
  }
  const keysAt = async (at: Browser, organizationId: string) => {
    const { body } = await at.send('GET', `/api-keys?organization_id=${organizationId}`)
    return new Map<string, boolean>(
      body.data.map((each: { id: string; needs_confirmation: boolean }) => [
        each.id,
        each.needs_confirmation,
      ]),
    )
  }

  test('made without a factor is listed, but refused until its person confirms it with one', async () => {
    const { at, acme, makers, governance, old } = await required()
    expect([...(await keysAt(at, acme.id)).values()]).toEqual([false, false])
    expect((await at.send('PATCH', governance, { require_mfa: true })).status).toBe(200)
    expect(await keysAt(at, acme.id)).toEqual(new Map([[makers.at.id, false], [makers.old.id, true]])) // prettier-ignore

    for (const path of ['/runs', '/me', '/scopes']) {
      const { status, body } = await server.call(makers.old.api_key, 'GET', path)
      expect([path, status, body.error.code]).toEqual([path, 403, 'mfa_required'])
      expect(body.error.message).toContain('/confirm')
      expect((await server.call(makers.at.api_key, 'GET', path)).status).toBe(200)
    }
    const confirm = `/api-keys/${makers.old.id}/confirm`
    // A session without a second factor cannot confirm a key, and no key can.
    expect((await old.send('POST', confirm)).body.error.code).toBe('mfa_required')
    for (const key of [makers.old.api_key, makers.at.api_key])
      expect((await server.call(key, 'POST', confirm)).body.error.code).toBe('mfa_required')
    const { status, body } = await at.send('POST', confirm)
    expect([status, body.needs_confirmation]).toEqual([200, false])
    expect((await server.call(makers.old.api_key, 'GET', '/runs')).status).toBe(200)
    expect(await eventTypesOf(server, acme.id)).toContain('api_key.confirmed')
  })

  test('has no more confirmation than the key that made it', async () => {
    const { at, makers, governance, make } = await required()
    const by = (key: string) => (method: string, path: string, body?: unknown) =>
      server.call(key, method, path, body)
    const children = [
      await make(by(makers.old.api_key), ['runs:read']),
      await make(by(makers.at.api_key), ['runs:read']),
    ]
    await at.send('PATCH', governance, { require_mfa: true })
    const runs = await Promise.all(children.map(({ api_key: key }) => server.call(key, 'GET', '/runs')))
    expect(runs.map(({ status }) => status)).toEqual([403, 200])
    // A key that another key made is not confirmed when that other key is confirmed later.
    await at.send('POST', `/api-keys/${makers.old.id}/confirm`)
    expect((await server.call(children[0]?.api_key ?? '', 'GET', '/runs')).status).toBe(403)
  })

  test('loses its confirmation when it gains rights without a factor', async () => {
    const { at, acme, makers, governance, old } = await required()
    const more = { scopes: ['api_keys:*', 'runs:read', 'runs:write'] }
    const same = { scopes: ['runs:read', 'api_keys:*'] }
    const path = `/api-keys/${makers.at.id}`
    expect((await old.send('PATCH', path, same)).body.factor_confirmed_at).not.toBeNull()
    expect((await old.send('PATCH', path, more)).body.factor_confirmed_at).toBeNull()
    await at.send('PATCH', governance, { require_mfa: true })
    expect((await keysAt(at, acme.id)).get(makers.at.id)).toBe(true)
    expect((await server.call(makers.at.api_key, 'GET', '/runs')).status).toBe(403)
  })

  test('of somebody else can only be confirmed by its person', async () => {
    const { at, acme, governance } = await required()
    await at.send('PATCH', governance, { require_mfa: true })
    const { keyId } = await addPerson(server.context, acme.id, 'member')
    expect((await keysAt(at, acme.id)).get(keyId)).toBe(true)
    const { status, body } = await at.send('POST', `/api-keys/${keyId}/confirm`)
    expect([status, body.error.code]).toEqual([403, 'insufficient_role'])
  })

  test('of an agent can still ask, since the factor requirement does not apply to agents', async () => {
    const { at, id, acme, governance } = await required()
    const { secret, id: keyId } = await addKey(server.context, acme.id, id, ['agents:authorize'])
    await at.send('PATCH', governance, { require_mfa: true })
    expect((await keysAt(at, acme.id)).get(keyId)).toBe(false)
    const question = {
      agent: { name: 'a', kind: 'hook' },
      session_id: 's',
      tool_name: 'Read',
      tool_input: {},
    }
    const { status, body } = await server.call(secret, 'POST', '/authorize', question)
    expect([status, body.decision]).toEqual([200, 'allow'])
  })

  test('or session without a factor cannot require one: it would lock itself out', async () => {
    const { governance, makers, old, acme } = await required()
    const owner = await old.send('PATCH', governance, { require_mfa: true })
    expect([owner.status, owner.body.error.code]).toEqual([409, 'conflict'])
    expect(owner.body.error.message).toContain('sign in with your second factor')
    const { rows } = await server.context.pool.query('select user_id from api_keys where id = $1', [
      makers.old.id,
    ])
    const key = await addKey(server.context, acme.id, rows[0].user_id, ['governance:write'])
    const byKey = await server.call(key.secret, 'PATCH', governance, { require_mfa: true })
    expect([byKey.status, byKey.body.error.code]).toEqual([409, 'conflict'])
    expect(byKey.body.error.message).toContain('confirm your key')
  })

  test('of a first start counts as made without a factor', async () => {
    const { rows } = await server.context.pool.query(
      `select count(*)::int as n from api_keys where name = 'bootstrap' and factor_confirmed_at is null`,
    )
    expect(rows[0].n).toBe(5)
  })
})

test('a stored idempotent answer is not given to a session without a factor', async () => {
  const { context } = server
  const { id } = await addOrganization(context)
  const { userId } = await addPerson(context, id, 'admin')
  const headers = {
    cookie: await sessionCookie(context, userId),
    origin: server.base,
    'idempotency-key': 'one',
  }
  const rule = { name: 'No mail', verdict: 'deny', tools: ['mail_send'] }
  const make = () => server.call(null, 'POST', `/organizations/${id}/rules`, rule, headers)
  expect((await make()).status).toBe(201)
  expect((await make()).status).toBe(201)
  await requireFactors(context, id)
  expect((await make()).body.error.code).toBe('mfa_required')
})
