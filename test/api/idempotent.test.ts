import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { access, splitKey } from '../../src/api/access.ts'
import { newId } from '../../src/contract/ids.ts'
import { World } from './access-matrix/world.ts'
import { addKey, aDefinition, factorCookie, sessionCookie } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

let server: TestServer
let key: string
let counter = 0
beforeAll(async () => {
  server = await startTestServer()
  key = server.identities.users.owner.api_key
})
afterAll(() => server.close())

const fresh = () => ({ 'idempotency-key': `key-${(counter += 1)}` })
const workflow = (name = 'W') => ({ name, definition: aDefinition })
const post = (path: string, body: unknown, headers: Record<string, string>, who = key) =>
  server.call(who, 'POST', path, body, headers)
const countOf = async (table: string): Promise<number> =>
  (await server.context.pool.query(`select count(*)::int as n from ${table}`)).rows[0].n

describe('Idempotency-Key', () => {
  test('the same call again gets the first answer, byte for byte, and changes nothing', async () => {
    const headers = fresh()
    const first = await post('/workflows', workflow(), headers)
    const count = await countOf('workflows')
    const again = await post('/api/v1/workflows', workflow(), headers)
    expect([again.status, again.text]).toEqual([201, first.text])
    expect(first.headers.get('idempotent-replayed')).toBeNull()
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.headers.get('content-type')).toBe(first.headers.get('content-type'))
    expect(await countOf('workflows')).toBe(count)
  })

  test('a session without a second factor never gets the answer of one with it, not even a half-made one', async () => {
    const { user_id: id } = server.identities.users.owner
    const { body: saved } = await post('/workflows', workflow(), {})
    const send = async (
      cookie: Promise<string>,
      headers: Record<string, string>,
      path = '/api-keys',
      body: object = { name: 'k', scopes: ['runs:read'] },
    ) => server.call(null, 'POST', path, body, { cookie: await cookie, origin: server.base, ...headers })
    const [withFactor, another] = [factorCookie(server.context, id), factorCookie(server.context, id)]
    const [without, older] = [
      sessionCookie(server.context, id),
      sessionCookie(server.context, id, undefined, 'unrecorded'),
    ]
    for (const [first, same, other] of [
      [withFactor, another, without],
      [without, older, withFactor],
    ] as const) {
      const headers = fresh()
      const { status, text } = await send(first, headers)
      expect(status).toBe(201)
      expect((await send(same, headers)).text).toBe(text)
      // The process died before it stored the answer. The new key is only in `made` then.
      await server.context.pool.query(
        "update idempotency_keys set response_status = null, locked_until = now() - interval '1 second' where key = $1",
        [headers['idempotency-key']],
      )
      const apart = await send(other, headers)
      expect([apart.status, apart.headers.get('idempotent-replayed')]).toEqual([201, null])
      expect(apart.body.api_key).not.toBe(JSON.parse(text).api_key)
      const runs: string[] = []
      for (const each of [first, same, other]) {
        const { body } = await send(each, headers, `/workflows/${saved.id}/execute?wait=0`, {
          inputs: { to: 'a@b.test' },
        })
        runs.push(body.execution_id)
      }
      expect(runs).toEqual([expect.any(String), runs[0], expect.any(String)])
      expect(runs[2]).not.toBe(runs[0])
    }
  })

  test.each(['/api-keys/', '/v1/api-keys', '/api/v1/api-keys/'])('%s is the same route', async (path) => {
    const headers = fresh()
    const body = { name: 'k', scopes: ['runs:read'] }
    const first = await post('/api-keys', body, headers)
    const count = await countOf('api_keys')
    const again = await post(path, body, headers)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.text).toBe(first.text)
    expect(await countOf('api_keys')).toBe(count)
  })

  test('an id in another encoding is the same, another id is not', async () => {
    const headers = fresh()
    const { organization_id: id } = server.identities
    const rule = { name: 'one', verdict: 'deny', match_all: true, status: 'inactive' }
    const first = await post(`/organizations/${id}/rules`, rule, headers)
    const encoded = await post(`/organizations/${id.replace('_', '%5F')}/rules/`, rule, headers)
    expect([encoded.status, encoded.text]).toEqual([201, first.text])
    const [one, two] = [await post('/workflows', workflow(), {}), await post('/workflows', workflow(), {})]
    const rollback = (of: string) => post(`/workflows/${of}/versions/1/rollback`, { message: '' }, headers)
    expect((await rollback(one.body.id)).headers.get('idempotent-replayed')).toBeNull()
    expect((await rollback(two.body.id)).headers.get('idempotent-replayed')).toBeNull()
  })

  test('the order of fields does not make another body', async () => {
    const headers = fresh()
    const first = await post(
      '/workflows',
      `{"name":"W","definition":${JSON.stringify(aDefinition)}}`,
      headers,
    )
    const again = await post(
      '/workflows',
      `{"definition":${JSON.stringify(aDefinition)}, "name":"W"}`,
      headers,
    )
    expect(again.text).toBe(first.text)
  })

  test('another body is a mismatch', async () => {
    const headers = fresh()
    await post('/workflows', workflow('A'), headers)
    const answer = await post('/workflows', workflow('B'), headers)
    expect([answer.status, answer.body.error.code]).toEqual([422, 'idempotency_mismatch'])
  })

  test('of racing calls one acts; the others get its answer or must wait', async () => {
    const headers = fresh()
    const before = await countOf('workflows')
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => post('/workflows', workflow(), headers)),
    )
    expect(await countOf('workflows')).toBe(before + 1)
    for (const answer of answers)
      if (answer.status !== 201) expect(answer.body.error.code).toBe('idempotency_in_progress')
  })

  test('a refusal by the domain is kept, one by the form of the body is not', async () => {
    const rules = `/organizations/${server.identities.organization_id}/rules`
    const rule = { name: 'taken', verdict: 'deny', match_all: true, status: 'inactive' }
    const { id } = (await post(rules, rule, {})).body
    const headers = fresh()
    expect((await post(rules, { ...rule, colour: 1 }, headers)).status).toBe(422)
    const refused = await post(rules, rule, headers)
    expect(refused.status).toBe(422)
    await server.call(key, 'DELETE', `${rules}/${id}`)
    const again = await post(rules, rule, headers)
    expect([again.status, again.text]).toEqual([422, refused.text])
  })

  test('is another key for another person', async () => {
    const headers = fresh()
    const first = await post('/workflows', workflow(), headers)
    const other = await post('/workflows', workflow(), headers, server.identities.users.member.api_key)
    expect(other.status).toBe(201)
    expect(other.body.id).not.toBe(first.body.id)
  })

  test('replays a new API key’s answer without storing the key readable', async () => {
    const headers = fresh()
    const first = await post('/api-keys', { name: 'k', scopes: ['runs:read'] }, headers)
    expect((await post('/api-keys', { name: 'k', scopes: ['runs:read'] }, headers)).text).toBe(first.text)
    const { rows } = await server.context.pool.query('select * from idempotency_keys')
    expect(JSON.stringify(rows)).not.toContain(first.body.api_key)
  })

  test('is another one for another API key of the same person, so that no answer goes to a narrower key', async () => {
    const { organization_id: organizationId, users } = server.identities
    const narrow = await addKey(server.context, organizationId, users.owner.user_id, ['api_keys:*'])
    const headers = fresh()
    const body = { name: 'k', scopes: ['api_keys:*', 'rules:write'] }
    const first = await post('/api-keys', body, headers)
    const other = await post('/api-keys', body, headers, narrow.secret)
    expect([other.status, other.body.error?.code]).toEqual([403, 'missing_scope'])
    expect(other.text).not.toContain(first.body.api_key)
    expect((await post('/api-keys', body, headers)).text).toBe(first.text)
  })

  test.each(['', ' ', 'a b', 'x'.repeat(256), 'ü'])('`%s` is not a key', async (text) => {
    const answer = await post('/workflows', workflow(), { 'idempotency-key': text })
    // An empty header counts as missing.
    expect(answer.status).toBe(text.trim() === '' ? answer.status : 400)
    if (text.trim() !== '') expect(answer.body.error.code).toBe('bad_request')
  })

  test('a failure on our side frees the key', async () => {
    const headers = fresh()
    const { combiner } = server.context
    Object.assign(server.context, { combiner: { run: () => Promise.reject(new Error('broken')) } })
    const failed = await post('/workflows', workflow(), headers)
    Object.assign(server.context, { combiner })
    expect([failed.status, failed.body.error.code]).toEqual([500, 'internal'])
    expect(failed.text).not.toContain('broken')
    expect((await post('/workflows', workflow(), headers)).status).toBe(201)
  })

  const named = Object.keys(access).filter((each) => each.startsWith('POST ') && each.includes('{'))
  const long = randomBytes(3_000).toString('hex')
  const pathOf = (route: string, name: string) =>
    splitKey(route as keyof typeof access).path.replaceAll(/\{\w+\}/g, name)

  test.each(named)('%s accepts the longest name that fits into a request’s path', async (route) => {
    const answer = await post(pathOf(route, long), {}, fresh())
    expect([answer.status < 500, answer.text]).toEqual([true, answer.text])
  })

  test('two long paths are two calls, and a repeated one is one', async () => {
    const { context, identities } = server
    const { organization_id: organizationId, users } = identities
    const owner = { userId: users.owner.user_id, key }
    const world = new World(server, { organizationId, owner, requester: owner }, owner)
    const { webhook: webhookId, delivery: one } = await world.delivery()
    const webhook = `/organizations/${organizationId}/webhooks/${webhookId}`
    const [event, other] = [newId('message'), newId('delivery')]
    const copy = async (table: 'webhook_events' | 'webhook_deliveries', given: object) => {
      const row = await context.db.selectFrom(table).selectAll().executeTakeFirstOrThrow()
      await context.db
        .insertInto(table)
        .values({ ...row, ...given })
        .execute()
    }
    await copy('webhook_events', { id: event })
    await copy('webhook_deliveries', { id: other, event_id: event })
    const headers = fresh()
    const replayed = async (delivery: string) => {
      const answer = await post(`${webhook}/deliveries/${delivery}/redeliver`, {}, headers)
      expect(answer.status).toBe(202)
      return answer.headers.get('idempotent-replayed')
    }
    expect(await replayed(one)).toBeNull()
    expect(await replayed(other)).toBeNull()
    expect(await replayed(one)).toBe('true')
  })
})
