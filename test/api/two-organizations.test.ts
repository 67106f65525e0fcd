import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { aDefinition, addKey, addOrganization } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/**
 * A member of our organization who is also a member of another one. The owner of the other organization must not get
 * rights in ours.
 */
let server: TestServer
let elsewhere: Awaited<ReturnType<typeof addOrganization>>
let ours: string
let userId: string
beforeAll(async () => {
  server = await startTestServer()
  ours = server.identities.organization_id
  userId = server.identities.users.member.user_id
  elsewhere = await addOrganization(server.context)
  await server.context.db
    .insertInto('memberships')
    .values({ organization_id: elsewhere.id, user_id: userId, role: 'member' })
    .execute()
})
afterAll(() => server.close())

describe('a key of a person in two organizations', () => {
  test('works in both, with the person’s role there', async () => {
    const key = await addKey(server.context, elsewhere.id, userId, ['runs:read', 'rules:write'])
    for (const id of [ours, elsewhere.id]) {
      expect((await server.call(key.secret, 'GET', `/runs?organization_id=${id}`)).status).toBe(200)
      const rules = await server.call(key.secret, 'POST', `/organizations/${id}/rules`, {})
      expect(rules.body.error.code).toBe('insufficient_role')
    }
  })

  test('once revoked, cannot be restored or widened by the other organization’s owner', async () => {
    const key = await addKey(server.context, elsewhere.id, userId, ['runs:read'])
    const one = `/api-keys/${key.id}`
    const reads = async () => (await server.call(key.secret, 'GET', `/runs?organization_id=${ours}`)).status
    expect((await server.call(key.secret, 'GET', `/memory/x?organization_id=${ours}`)).status).toBe(403)
    await server.context.db
      .updateTable('api_keys')
      .set({ revoked_at: new Date() })
      .where('id', '=', key.id)
      .execute()
    const back = { active: true, scopes: ['runs:read', 'memory:read'] }
    const refused = await server.call(elsewhere.owner.key, 'PATCH', one, back)
    expect([refused.status, refused.body.error.code]).toEqual([403, 'insufficient_role'])
    expect(await reads()).toBe(401)
  })

  test('can be revoked by that owner, for both', async () => {
    const key = await addKey(server.context, elsewhere.id, userId, ['runs:read'])
    const revoked = await server.call(elsewhere.owner.key, 'DELETE', `/api-keys/${key.id}`)
    expect(revoked.status).toBe(204)
    expect((await server.call(key.secret, 'GET', `/runs?organization_id=${ours}`)).status).toBe(401)
  })
})

describe('a call that names two organizations', () => {
  const made = (query: string, body: object, path = '/workflows') =>
    server.call(server.identities.users.member.api_key, 'POST', `${path}${query}`, body)
  const workflow = { name: 'W', definition: aDefinition }
  const named = (id: string) => ({ ...workflow, organization_id: id })

  test('is 422 and creates nothing, in either order', async () => {
    const count = async () =>
      (await server.context.pool.query('select count(*)::int as n from workflows')).rows[0].n
    const before = await count()
    for (const [query, body] of [
      [ours, elsewhere.id],
      [elsewhere.id, ours],
      [ours, 'org_x'],
    ] as const) {
      const answer = await made(`?organization_id=${query}`, named(body))
      expect([answer.status, answer.body.error.code]).toEqual([422, 'validation_error'])
      expect(answer.body.error.details).toEqual([
        { path: 'organization_id', message: `\`${body}\` in the body, \`${query}\` in the query` },
      ])
    }
    expect(await count()).toBe(before)
  })

  test('applies to API keys too', async () => {
    const scopes = ['runs:read']
    const key = await addKey(server.context, ours, userId, ['api_keys:*', ...scopes])
    const body = { name: 'k', scopes, organization_id: elsewhere.id }
    const answer = await server.call(key.secret, 'POST', `/api-keys?organization_id=${ours}`, body)
    expect([answer.status, answer.body.error.code]).toEqual([422, 'validation_error'])
  })

  test('comes after 404: an organization of others looks like a missing one', async () => {
    expect((await made('?organization_id=org_x', named(ours))).status).toBe(404)
  })

  test('an object in the path must belong to the named organization, or nothing happens', async () => {
    const by = elsewhere.owner.key
    await server.context.db
      .insertInto('memberships')
      .values({ organization_id: ours, user_id: elsewhere.owner.userId, role: 'owner' })
      .execute()
    const made = await server.call(by, 'POST', '/workflows', { name: 'W', definition: aDefinition })
    const path = `/workflows/${made.body.id}`
    for (const [method, target, body] of [
      ['PUT', path, { name: 'X' }],
      ['GET', path, undefined],
      ['DELETE', path, undefined],
      ['POST', `${path}/execute`, { inputs: { to: 'a@acme.test' } }],
      ['POST', `/organizations/${elsewhere.id}/rules`, { name: 'R', verdict: 'deny', tools: ['mail_send'] }],
    ] as const) {
      const refused = await server.call(by, method, `${target}?organization_id=${ours}`, body)
      expect([method, target, refused.status, refused.body.error.details[0].path]).toEqual([
        method,
        target,
        422,
        'organization_id',
      ])
      const unknown = await server.call(by, method, `${target}?organization_id=org_x`, body)
      expect(unknown.status).toBe(422)
    }
    expect((await server.call(by, 'GET', path)).body.name).toBe('W')
    await server.context.db
      .deleteFrom('memberships')
      .where('organization_id', '=', ours)
      .where('user_id', '=', elsewhere.owner.userId)
      .execute()
    // Objects of other organizations are not found, whatever organization the request names.
    const theirs = await server.call(
      server.identities.users.viewer.api_key,
      'GET',
      `${path}?organization_id=${ours}`,
    )
    expect(theirs.status).toBe(404)
  })

  test('the same organization in both is accepted, and so is either alone', async () => {
    const query = `?organization_id=${elsewhere.id}`
    for (const answer of [
      await made(query, named(elsewhere.id)),
      await made(query, workflow),
      await made('', named(elsewhere.id)),
    ])
      expect([answer.status, answer.body.organization_id]).toEqual([201, elsewhere.id])
  })
})
