import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { addKey, addOrganization } from './fixtures.ts'
import { startTestServer, type TestServer } from './server.ts'

/** A member of ours who is also one of another organization: what its owner may do must not reach us. */
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
  test('opens both, with the role they have there', async () => {
    const key = await addKey(server.context, elsewhere.id, userId, ['runs:read', 'rules:write'])
    for (const id of [ours, elsewhere.id]) {
      expect((await server.call(key.secret, 'GET', `/runs?organization_id=${id}`)).status).toBe(200)
      const rules = await server.call(key.secret, 'POST', `/organizations/${id}/rules`, {})
      expect(rules.body.error.code).toBe('insufficient_role')
    }
  })

  test('once revoked, cannot be brought back or widened by the other organization’s owner', async () => {
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
