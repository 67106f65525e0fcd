import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { agentWorld, type AgentWorld } from './agent.ts'

/* Rules on file paths apply to every spelling of a path (docs/decisions/0058). */

let server: TestServer
let world: AgentWorld
const inside = { param: 'file_path', operator: 'startswith', value: '/srv/www/' }
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
})
afterAll(() => server.close())

const spellings = [
  '/srv/www/index.html',
  '/srv//www/index.html',
  '/srv/./www/index.html',
  '/srv/x/../www/index.html',
  '//srv/www/x/../index.html/.',
  ' /srv/www/index.html',
]

test('a rule denies each spelling; a neighbouring path passes', async () => {
  await world.change('POST', '/rules', {
    name: 'no website',
    verdict: 'deny',
    tools: ['Write'],
    params: [inside],
  })
  const agent = world.agent()
  const write = (file_path: unknown) => agent.ask('Write', { file_path, content: 'x' })
  for (const path of [
    ...spellings,
    { 1: 'index.html', 2: '/srv/www/index.html' },
    { 1: 'x', 2: '/srv//www/x' },
  ])
    expect([path, (await write(path)).rule_name]).toEqual([path, 'no website'])
  for (const path of ['/srv/wwwx/index.html', '/srv/www/../x', '/srv//x', { 1: 'x', 2: '/srv/x' }])
    expect([path, (await write(path)).rule_name]).toEqual([
      path,
      path === '/srv/www/../x' ? 'no website' : null,
    ])
  for (const path of ['/../srv/www/x', '/srv/../../x', { 1: '../x', 2: '/../x' }])
    expect([path, (await write(path)).reason]).toEqual([path, 'path above the root'])
})

test('an allow rule cannot override a restrictive one by another spelling', async () => {
  await world.change('POST', '/rules', {
    name: 'not elsewhere',
    verdict: 'deny',
    tools: ['Read'],
    params: [{ param: 'file_path', operator: 'not_in', value: ['/w/a', '/w//a'] }],
  })
  const agent = world.agent()
  expect((await agent.ask('Read', { file_path: '/w/a' })).decision).toBe('allow')
  expect((await agent.ask('Read', { file_path: '/w//a' })).decision).toBe('allow')
  expect((await agent.ask('Read', { file_path: '/w/./a' })).decision).toBe('deny')
})

test('held: approvers see the path as given, and exactly that call passes', async () => {
  await world.change('POST', '/rules', {
    name: 'waits',
    verdict: 'require_approval',
    tools: ['Write'],
    params: [inside],
  })
  const agent = world.agent()
  const input = { file_path: '/srv//www/index.html', content: 'x' }
  const { approval_id } = await agent.ask('Write', input)
  const shown = (await server.call(world.admin.key, 'GET', `/approvals/${approval_id}`)).body
  expect(shown.params).toEqual(input)
  await world.decide(approval_id, 'approve')
  expect((await agent.ask('Write', { ...input, file_path: '/srv/www/index.html' })).decision).toBe(
    'require_approval',
  )
  const question = agent.question('Write', input)
  expect((await agent.send(question)).body).toMatchObject({ decision: 'allow' })
  expect((await agent.finish(question)).unapproved).toBe(false)
})

test('rules/test gives the same answer as the hook', async () => {
  const draft = { name: 'd', verdict: 'deny', tools: ['Write'], params: [inside] }
  const test = async (file_path: string, more: object = {}) => {
    const call = { source: 'agents', tool: 'Write', params: { file_path }, labels: [], ...more }
    const path = `/organizations/${world.organizationId}/rules/test`
    return (await server.call(world.admin.key, 'POST', path, { call, rules: [draft] })).body
  }
  for (const path of spellings) expect((await test(path)).decision).toBe('deny')
  expect((await test('/srv//www/x', { side_effect: 'write' })).decision).toBe('deny')
  expect((await test('/../x')).reason).toBe('path above the root')
})

describe('POST /hooks/claude-code, whose events name the client’s folder', () => {
  const event = (file_path: unknown, cwd: unknown) => ({
    hook_event_name: 'PreToolUse',
    session_id: newId('session'),
    cwd,
    tool_name: 'Write',
    tool_input: { file_path },
  })
  const hook = async (path: unknown, cwd: unknown): Promise<string> => {
    const answer = await server.call(world.member.key, 'POST', '/hooks/claude-code?wait=0', event(path, cwd))
    return answer.body.hookSpecificOutput?.permissionDecisionReason ?? 'runs'
  }

  test.each([
    ['index.html', '/srv/www', 'website'],
    ['../www/index.html', '/srv/x', 'website'],
    ['www//index.html', '/srv/', 'website'],
    ['/srv//www/index.html', '/home', 'website'],
    ['index.html', '/srv', 'runs'],
    ['index.html', undefined, 'runs'],
    ['index.html', 7, 'runs'],
    ['../../../x', '/srv', 'path above the root'],
  ])('%j in %j: %s', async (path, cwd, told) => {
    await world.change('POST', '/rules', {
      name: 'website',
      verdict: 'deny',
      tools: ['Write'],
      params: [inside],
    })
    expect(await hook(path, cwd)).toContain(told)
  })

  test('approvers see both', async () => {
    await world.change('POST', '/rules', {
      name: 'r',
      verdict: 'require_approval',
      tools: ['Write'],
      params: [inside],
    })
    expect(await hook('index.html', '/srv/www')).toContain('is still pending')
    const { data } = (await server.call(world.admin.key, 'GET', '/approvals?status=pending')).body
    const shown = (await server.call(world.admin.key, 'GET', `/approvals/${data[0].id}`)).body
    expect(shown.params).toEqual({ file_path: { 1: 'index.html', 2: '/srv/www/index.html' } })
  })
})
