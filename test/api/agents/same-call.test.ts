import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { startTestServer, type TestServer } from '../server.ts'
import { Agent, agentWorld, type AgentWorld } from './agent.ts'

/* One call that the hook and the gateway behind it both see (docs/decisions/0043), and what the gateway alone knows. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
})
afterAll(() => server.close())

test('the hook and the gateway behind it ask about one call: one approval, one set of labels', async () => {
  await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['mcp__*'] })
  const agent = world.agent()
  const hook = agent.question('mcp__svc__fs__write_file', { path: 'a' })
  const { approval_id } = (await agent.send(hook)).body
  await world.decide(approval_id, 'approve')
  expect((await agent.send(hook)).body.decision).toBe('allow')
  const gateway = new Agent(server, world.member.key)
  const asked = { ...gateway.question('mcp__fs__write_file', { path: 'a' }), tool_use_id: hook.tool_use_id }
  const through = (await gateway.send(asked)).body
  expect(through).toMatchObject({ decision: 'allow' })
  expect(through.explanation).toContain(approval_id)
  for (const other of [
    { ...asked, tool_input: { path: 'b' } },
    { ...asked, tool_name: 'mcp__fs__delete_file' },
    { ...asked, tool_use_id: 'other' },
  ])
    expect((await gateway.send(other)).body.decision).toBe('require_approval')
})

test.each([
  ['in the same session', 'mcp__svc__fs__write_file', 'mcp__fs__write_file', 'allow'],
  // The first eight digits of the SHA-256 of `fs__write_a_very_long_name`.
  ['under a cut name', 'mcp__svc__fs__write_a_ver_21b7e93f', 'mcp__fs__write_a_very_long_name', 'allow'],
  [
    'another hash',
    'mcp__svc__fs__write_a_ver_21b7e930',
    'mcp__fs__write_a_very_long_name',
    'require_approval',
  ],
  ['another beginning', 'mcp__svc__fs__read_21b7e93f', 'mcp__fs__write_a_very_long_name', 'require_approval'],
  ['the hash alone', 'mcp__svc__21b7e93f', 'mcp__fs__write_a_very_long_name', 'require_approval'],
])('what the hook saw is what the gateway asks about: %s', async (_name, seen, tool, decision) => {
  const held = { verdict: 'require_approval', tools: ['mcp__*'] }
  await world.change('POST', '/rules', { name: 'r', ...held })
  const agent = world.agent()
  const hook = agent.question(seen, { path: 'a' })
  const { approval_id } = (await agent.send(hook)).body
  await world.decide(approval_id, 'approve')
  expect((await agent.send(hook)).body.decision).toBe('allow')
  expect((await agent.send({ ...hook, tool_name: tool })).body.decision).toBe(decision)
})

test('a tool that is no longer what the session was shown is denied, whatever the rules', async () => {
  const agent = world.agent()
  const { decision, reason } = await agent.ask(
    'mcp__fs__read',
    {},
    { annotations: { definitionChanged: true } },
  )
  expect({ decision, reason }).toEqual({ decision: 'deny', reason: 'tool changed' })
  for (const annotations of [{ definitionChanged: false }, { definitionChanged: 'true' }])
    expect((await agent.ask('mcp__fs__other', {}, { annotations })).reason).not.toBe('tool changed')
})
