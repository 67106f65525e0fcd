import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { ruleTemplates } from '../../../src/governance/rules/rule-templates.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { agentWorld, type AgentWorld } from './agent.ts'

/* MCP servers choose the names of their tools. An admin decides what a tool counts as (docs/decisions/0264). */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())
beforeEach(async () => {
  world = await agentWorld(server)
  const { body } = ruleTemplates.find(({ id }) => id === 'agents-unclassed-tools') ?? {}
  await world.change('POST', '/rules', { ...body, status: 'active' })
})

const settings = (external_tools: object) => world.change('PATCH', '/governance', { external_tools })
const sessionOf = async (session: string) => {
  const { body } = await server.call(world.admin.key, 'GET', `/agent-sessions?session_id=${session}`)
  const [{ id, unclassed_tools }] = body.data
  const one = await server.call(world.admin.key, 'GET', `/agent-sessions/${id}`)
  expect(one.body.unclassed_tools).toEqual(unclassed_tools)
  return unclassed_tools as string[]
}
/** The decision about a call of a session that holds company data. */
const afterReading = async (tool: string, more: object = {}) => {
  const agent = world.agent()
  await agent.ask('Read', { file_path: '/w/plan.md' })
  return (await agent.ask(tool, { text: 'plan' }, more)).decision
}

test('an unclassed tool waits once the session holds company data, whatever its name says', async () => {
  for (const tool of [
    'mcp__sink__get_status',
    'mcp__sink__list',
    'mcp__sink__web',
    'mcp__sink__send',
    'mcp_sink_x',
    'mcp-sink-get',
    'MCP__sink__get',
    'Mcp__sink__get',
    'sink__get',
    'sink.get',
    'sink/get',
    'use_mcp_tool',
    'ReadMcpResourceTool',
  ])
    expect([tool, await afterReading(tool)]).toEqual([tool, 'require_approval'])
  expect(await afterReading('mcp__sink__get', { annotations: { readOnlyHint: true } })).toBe(
    'require_approval',
  )
  expect((await world.agent().ask('mcp__sink__get_status')).decision).toBe('allow')
  expect(await afterReading('Grep')).toBe('allow')
})

test('classing a server frees its tools and no other, from the next call on', async () => {
  await settings({ 'mcp__git__*': { side_effect: 'read' }, 'mcp__out__*': { output_labels: ['internal'] } })
  expect(await afterReading('mcp__git__get_status')).toBe('allow')
  for (const tool of [
    'mcp__git__evil__get',
    'mcp__git___get',
    'mcp__github__get',
    'mcp__GIT__get',
    'mcp__out__get',
  ])
    expect([tool, await afterReading(tool)]).toEqual([tool, 'require_approval'])
  // Annotations make a classed tool stricter, never less strict.
  const agent = world.agent()
  const { side_effect } = await agent.ask('mcp__git__send', {}, { annotations: { destructiveHint: true } })
  expect(side_effect).toBe('write')
  await settings({})
  expect(await afterReading('mcp__git__get_status')).toBe('require_approval')
})

test('a trial and a comparison of rules know which tools are classed', async () => {
  await settings({ 'mcp__git__*': { side_effect: 'read' } })
  const decision = async (tool: string, rules?: object[]) => {
    const call = { tool, labels: ['internal'] }
    return (await world.change('POST', '/rules/test', { call, ...(rules && { rules }) })).body.decision
  }
  const draft = { name: 'd', verdict: 'deny', classed: false }
  expect([await decision('mcp__git__get'), await decision('mcp__x__get')]).toEqual([
    'allow',
    'require_approval',
  ])
  expect([await decision('mcp__git__get', [draft]), await decision('mcp__x__get', [draft])]).toEqual([
    'allow',
    'deny',
  ])
  const { body } = await world.change('POST', '/rules/diff', {
    from: [],
    to: [{ ...draft, tools: ['mcp__x__*'] }],
  })
  expect(body.changes).toMatchObject([{ change: 'allow->deny', example_call: { source: 'agents' } }])
  const none = { from: [], to: [{ ...draft, tools: ['mcp__git__any'] }] }
  expect((await world.change('POST', '/rules/diff', none)).body.changes).toEqual([])
})

test('a session names the unclassed tools that it asked for or ran, and no more than a hundred', async () => {
  const agent = world.agent()
  await agent.ask('Read', { file_path: '/w/plan.md' })
  await agent.ask('mcp__sink__get')
  await agent.ask('mcp__sink__get')
  await agent.ask('mcp__git__get')
  await agent.finish({ tool_name: 'mcp__ran__list', tool_input: {} })
  expect(await sessionOf(agent.session)).toEqual(['mcp__sink__get', 'mcp__git__get', 'mcp__ran__list'])
  await settings({ 'mcp__git__*': { side_effect: 'read' } })
  expect(await sessionOf(agent.session)).toEqual(['mcp__sink__get', 'mcp__ran__list'])
  await Promise.all(Array.from({ length: 110 }, (_, at) => agent.ask(`mcp__many__get_${at}`)))
  expect(await sessionOf(agent.session)).toHaveLength(99)
})

test('a rule for unclassed tools that can match none is refused', async () => {
  const path = `/organizations/${world.organizationId}/rules`
  for (const more of [{ applies_to: ['workflows'] }, { tools: ['Bash', 'Read'] }]) {
    const body = { name: 'n', verdict: 'deny', classed: false, ...more }
    const { status, body: answer } = await server.call(world.admin.key, 'POST', path, body)
    expect([status, answer.error.details?.[0].path]).toEqual([422, 'classed'])
  }
})
