import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { startTestServer, type TestServer } from '../server.ts'
import { agentWorld, type AgentWorld } from './agent.ts'

/* POST /authorize/sessions/end: which approvals end with a session. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
  await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['Write'] })
})
afterAll(() => server.close())

const end = async (session: string) =>
  (await server.call(world.member.key, 'POST', '/authorize/sessions/end', { session_id: session })).body
const statusOf = async (id: string) => (await server.call(world.admin.key, 'GET', `/approvals/${id}`)).body

test('an unused approval ends with its session: the same call asks anew', async () => {
  const [agent, other] = [world.agent(), world.agent()]
  const { approval_id: given } = await agent.ask('Write', { file_path: '/a' })
  const { approval_id: elsewhere } = await other.ask('Write', { file_path: '/a' })
  for (const id of [given, elsewhere]) await world.decide(id, 'approve')
  const { approval_id: waits } = await agent.ask('Write', { file_path: '/b' })
  expect(await end(agent.session)).toMatchObject({ ok: true, cancelled_approvals: 2 })
  expect(await statusOf(given)).toMatchObject({ status: 'cancelled', used_at: null })
  expect((await statusOf(waits)).status).toBe('cancelled')
  const anew = await agent.ask('Write', { file_path: '/a' })
  expect(anew.decision).toBe('require_approval')
  expect([given, waits]).not.toContain(anew.approval_id)
  expect((await other.ask('Write', { file_path: '/a' })).decision).toBe('allow')
})

test('a used, rejected or withdrawn approval keeps its status', async () => {
  const agent = world.agent()
  const ids: Record<string, string> = {}
  for (const name of ['used', 'rejected', 'withdrawn']) {
    const { approval_id } = await agent.ask('Write', { file_path: name })
    ids[name] = approval_id
  }
  await world.decide(ids['used'] as string, 'approve')
  expect((await agent.ask('Write', { file_path: 'used' })).decision).toBe('allow')
  await world.decide(ids['rejected'] as string, 'reject')
  await server.call(agent.key, 'POST', `/authorize/approvals/${ids['withdrawn']}/cancel`, {})
  expect((await end(agent.session)).cancelled_approvals).toBe(0)
  expect(await statusOf(ids['used'] as string)).toMatchObject({
    status: 'approved',
    used_at: expect.any(String),
  })
  expect((await statusOf(ids['rejected'] as string)).status).toBe('rejected')
  expect((await agent.ask('Write', { file_path: 'rejected' })).decision).toBe('deny')
})

test('revoking also ends unused approvals', async () => {
  const agent = world.agent()
  const { approval_id } = await agent.ask('Write')
  await world.decide(approval_id, 'approve')
  const [session] = (await server.call(world.admin.key, 'GET', `/agent-sessions?session_id=${agent.session}`))
    .body.data
  await server.call(world.admin.key, 'POST', `/agent-sessions/${session.id}/revoke`, {})
  expect((await statusOf(approval_id)).status).toBe('cancelled')
})
