import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import type { Role } from '../../../src/policy/types.ts'
import { Browser } from '../browser.ts'
import { addKey, addOrganization, addPerson, sessionCookie } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { agentWorld, type AgentWorld } from './agent.ts'

/* Which organizations' sessions `GET /agent-sessions` lists. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
})
afterAll(() => server.close())

/** Another organization with one agent session, in which the person has the role. */
async function elsewhere(userId: string, role: Role) {
  const { id } = await addOrganization(server.context)
  await server.context.db
    .insertInto('memberships')
    .values({ organization_id: id, user_id: userId, role })
    .execute()
  const stranger = await addPerson(server.context, id, 'member')
  const question = world.agent().question('Read')
  await server.call(stranger.key, 'POST', '/authorize', question)
  return { id, session: question.session_id }
}

const sessionsOf = async (key: string, query = '') => {
  const { status, body } = await server.call(key, 'GET', `/agent-sessions${query}`)
  return [status, body.data?.map((each: { session_id: string }) => each.session_id) ?? body.error.code]
}

test('without a named organization: of each where the role suffices, newest first and in pages', async () => {
  const agent = world.agent()
  await agent.ask('Read')
  const [asAdmin, asMember] = [
    await elsewhere(world.admin.userId, 'admin'),
    await elsewhere(world.admin.userId, 'member'),
  ]
  await elsewhere(world.member.userId, 'owner')
  const { key } = world.admin
  expect(await sessionsOf(key)).toEqual([200, [asAdmin.session, agent.session]])
  const first = await server.call(key, 'GET', '/agent-sessions?limit=1')
  expect(first.body.data).toMatchObject([{ session_id: asAdmin.session, organization_id: asAdmin.id }])
  expect(await sessionsOf(key, `?limit=1&cursor=${first.body.next_cursor}`)).toEqual([200, [agent.session]])
  expect(await sessionsOf(key, `?organization_id=${world.organizationId}`)).toEqual([200, [agent.session]])
  expect(await sessionsOf(key, `?organization_id=${asMember.id}`)).toEqual([403, 'insufficient_role'])
  expect(await sessionsOf(key, `?session_id=${agent.session}`)).toEqual([200, [agent.session]])
})

test('a signed-in person needs the role in one organization; a named one is listed alone', async () => {
  const { userId } = world.member
  const agent = world.agent()
  await agent.ask('Read')
  const cookie = await sessionCookie(server.context, userId)
  const signedIn = async (headers: Record<string, string> = {}) => {
    const { status, body } = await new Browser(server).send('GET', '/agent-sessions', undefined, {
      cookie,
      ...headers,
    })
    return [status, body.data?.map((each: { session_id: string }) => each.session_id) ?? body.error.code]
  }
  expect(await signedIn()).toEqual([403, 'insufficient_role'])
  const [first, second] = [await elsewhere(userId, 'admin'), await elsewhere(userId, 'owner')]
  expect(await signedIn()).toEqual([200, [second.session, first.session]])
  expect(await signedIn({ 'x-organization-id': first.id })).toEqual([200, [first.session]])
  expect(await signedIn({ 'x-organization-id': world.organizationId })).toEqual([403, 'insufficient_role'])
})

test('a key needs the role in its own organization', async () => {
  await elsewhere(world.member.userId, 'owner')
  const { secret } = await addKey(server.context, world.organizationId, world.member.userId, ['agents:read'])
  expect(await sessionsOf(secret)).toEqual([403, 'insufficient_role'])
})

test('an organization whose second factor is missing is left out; named, it is refused', async () => {
  const agent = world.agent()
  await agent.ask('Read')
  const strict = await elsewhere(world.admin.userId, 'admin')
  await server.context.db
    .updateTable('organizations')
    .set({ settings: JSON.stringify({ require_mfa: true }) })
    .where('id', '=', strict.id)
    .execute()
  expect(await sessionsOf(world.admin.key)).toEqual([200, [agent.session]])
  expect(await sessionsOf(world.admin.key, `?organization_id=${strict.id}`)).toEqual([403, 'mfa_required'])
})
