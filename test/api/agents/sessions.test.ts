import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { addOrganization } from '../fixtures.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { agentWorld, type AgentWorld } from './agent.ts'

/* Sessions of agents: their end, their new beginning, and their receipts. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
})
afterAll(() => server.close())

test('a session that has ended is not ended again', async () => {
  const agent = world.agent()
  await agent.ask('Read')
  const end = () =>
    server.call(world.member.key, 'POST', '/authorize/sessions/end', { session_id: agent.session })
  const first = (await end()).body
  expect((await end()).body).toEqual(first)
  const listing = `/organizations/${world.organizationId}/governance/audit?event_type=agent_session.ended`
  expect((await server.call(world.owner.key, 'GET', listing)).body.total).toBe(1)
})

test('the audit log says why a session ended or was revoked', async () => {
  const agent = world.agent()
  await agent.ask('Read')
  const end = (body: object) =>
    server.call(world.member.key, 'POST', '/authorize/sessions/end', { session_id: agent.session, ...body })
  await end({ reason: 'the work is done' })
  await agent.ask('Read')
  await end({})
  const [{ id }] = (await server.call(world.admin.key, 'GET', '/agent-sessions')).body.data
  await server.call(world.admin.key, 'POST', `/agent-sessions/${id}/revoke`, { reason: 'gone wild' })
  const reasonsOf = async (type: string) => {
    const listing = `/organizations/${world.organizationId}/governance/audit?event_type=${type}`
    const { events } = (await server.call(world.owner.key, 'GET', listing)).body
    return events.map((each: { metadata: { reason: string } }) => each.metadata.reason)
  }
  expect(await reasonsOf('agent_session.ended')).toEqual(['', 'the work is done'])
  expect(await reasonsOf('agent_session.revoked')).toEqual(['gone wild'])
})

test('the receipt of a session shows an approved call once, with its approval, and a call that still waits', async () => {
  await world.change('POST', '/rules', { name: 'hold', verdict: 'require_approval', tools: ['Write'] })
  const agent = world.agent()
  const held = await agent.ask('Write', { file_path: 'a' })
  // The agent asks again before anybody has approved.
  expect((await agent.ask('Write', { file_path: 'a' })).approval_id).toBe(held.approval_id)
  await world.decide(held.approval_id, 'approve')
  expect((await agent.ask('Write', { file_path: 'a' })).decision).toBe('allow')
  const waiting = await agent.ask('Write', { file_path: 'b' })
  const path = `/runs/${held.session_run_id}/authorization`
  const { decisions } = (await server.call(world.member.key, 'GET', path)).body
  expect(decisions).toMatchObject([
    {
      verdict: 'allow',
      rule_name: 'hold',
      held_at: expect.any(String),
      approval: { id: held.approval_id, votes: [{ decision: 'approve' }] },
    },
    { verdict: 'require_approval', approval: { id: waiting.approval_id, votes: [] } },
  ])
  expect(Date.parse(decisions[0].held_at)).toBeLessThan(Date.parse(decisions[0].decided_at))
})

test('the record of a session cannot be cancelled, and the answer names the route that stops the session', async () => {
  const { session_run_id: run } = await world.agent().ask('Read')
  for (const path of [`/runs/${run}/cancel`, `/executions/${run}/cancel`]) {
    const { status, body } = await server.call(world.member.key, 'POST', path)
    expect([status, body.error.code]).toEqual([409, 'bad_transition'])
    expect(body.error.message).toMatch(/POST \/agent-sessions\/ses_\w+\/revoke/)
  }
  const stranger = (await addOrganization(server.context)).owner
  expect((await server.call(stranger.key, 'POST', `/runs/${run}/cancel`)).status).toBe(404)
})

test('an ended session reopens with its labels; its receipt has every decision in order', async () => {
  const agent = world.agent()
  const { session_run_id } = await agent.ask('Read')
  const end = await server.call(world.member.key, 'POST', '/authorize/sessions/end', {
    session_id: agent.session,
  })
  expect(end.body).toEqual({ ok: true, session_run_id, cancelled_approvals: 0 })
  expect((await agent.ask('Write')).labels).toEqual(['internal'])
  const receipt = await server.call(world.member.key, 'GET', `/runs/${session_run_id}/authorization`)
  expect(receipt.body.workflow_id).toBeNull()
  expect(receipt.body.decisions.map((each: { tool: string; seq: number }) => [each.tool, each.seq])).toEqual([
    ['Read', 1],
    ['Write', 2],
  ])
  const record = (await server.call(world.member.key, 'GET', `/runs/${session_run_id}`)).body
  expect(record).toMatchObject({
    id: session_run_id,
    workflow_id: null,
    status: 'running',
    nodes_executed: 2,
  })
  const stranger = (await addOrganization(server.context)).owner
  expect((await server.call(stranger.key, 'GET', `/runs/${session_run_id}`)).status).toBe(404)
  const unknown = { session_id: newId('session') }
  expect((await server.call(world.member.key, 'POST', '/authorize/sessions/end', unknown)).status).toBe(404)
})
