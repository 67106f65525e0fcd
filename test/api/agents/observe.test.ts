import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { startTestServer, type TestServer } from '../server.ts'
import { Agent, agentWorld, type AgentWorld } from './agent.ts'

/* POST /authorize/observe: finds the decision that allowed a finished call. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
})
afterAll(() => server.close())

test('a finished call that no decision allowed is an alert, and its labels join the session', async () => {
  await world.change('POST', '/rules', { name: 'no', verdict: 'deny', tools: ['Read'] })
  const agent = world.agent()
  const denied = agent.question('Read')
  expect((await agent.send(denied)).body.decision).toBe('deny')
  expect(await agent.finish(denied)).toMatchObject({ unapproved: true, labels: ['internal'] })
  const fine = agent.question('Grep')
  await agent.send(fine)
  expect((await agent.finish(fine)).unapproved).toBe(false)
  const changed = { ...fine, tool_input: { pattern: 'other than asked' } }
  expect((await agent.finish(changed)).unapproved).toBe(true)
  const never = new Agent(server, world.member.key)
  expect((await never.finish({ tool_name: 'Write', tool_input: {} })).unapproved).toBe(true)
  expect(await server.context.metrics.text()).toMatch(/unapproved_calls_total\{.*\} 3/)
  const { events } = (
    await server.call(
      world.owner.key,
      'GET',
      `/organizations/${world.organizationId}/governance/audit?event_type=agent.unapproved_call`,
    )
  ).body
  expect(events).toHaveLength(3)
  const { data } = (await server.call(world.admin.key, 'GET', `/agent-sessions?session_id=${agent.session}`))
    .body
  expect(data[0].unapproved_calls).toBe(2)
})

test('each decision covers one finished call, however many reports arrive at once', async () => {
  const agent = world.agent()
  const { tool_use_id: _, ...question } = agent.question('Edit', { file_path: 'a' })
  await agent.send(question)
  await agent.send(question)
  const told = await Promise.all(Array.from({ length: 6 }, () => agent.finish(question)))
  expect(told.filter(({ unapproved }) => unapproved)).toHaveLength(4)
})

test('a call that ran after its last answer was a denial is an alert', async () => {
  const agent = world.agent()
  const edit = agent.question('Edit')
  expect((await agent.send(edit)).body.decision).toBe('allow')
  await world.change('POST', '/freeze', { reason: 'incident' })
  expect((await agent.send(edit)).body.decision).toBe('deny')
  expect((await agent.finish(edit)).unapproved).toBe(true)
  expect((await agent.finish({ ...edit, tool_use_id: 'never asked' })).unapproved).toBe(true)
  await world.change('POST', '/unfreeze', { reason: 'over' })
  await agent.send(edit)
  for (let times = 0; times < 2; times += 1) expect((await agent.finish(edit)).unapproved).toBe(false)
})

test('a call that was allowed again after a change still counts as finished, with its approval', async () => {
  await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['Write'] })
  const agent = world.agent()
  const write = agent.question('Write')
  await world.decide((await agent.send(write)).body.approval_id, 'approve')
  await agent.send(write)
  await world.change('POST', '/rules', { name: 'other', verdict: 'deny', tools: ['Edit'] })
  expect((await agent.send(write)).body.decision).toBe('allow')
  await agent.finish(write)
  expect((await agent.send(write)).body.decision).toBe('require_approval')
})
