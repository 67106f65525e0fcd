import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { startTestServer, type TestServer } from '../server.ts'
import { agentWorld, type Agent, type AgentWorld } from './agent.ts'

/* A call of a shell is bound to its folder and to the content of the scripts that it runs. */

let server: TestServer
let world: AgentWorld
beforeAll(async () => {
  server = await startTestServer()
})
beforeEach(async () => {
  world = await agentWorld(server)
})
afterAll(() => server.close())

const hold = (tools: readonly string[] = ['Bash']) =>
  world.change('POST', '/rules', { name: 'ask', verdict: 'require_approval', tools })

const script = (path: string, digit: string, word = './deploy.sh') => ({
  word,
  path,
  sha256: digit.repeat(64),
})

/** Asks about a call, approves it, and returns what the approver saw. */
async function approved(agent: Agent, tool: string, input: object, around: object) {
  const { decision, approval_id } = await agent.ask(tool, input, around)
  expect(decision).toBe('require_approval')
  const { body } = await server.call(world.admin.key, 'GET', `/approvals/${approval_id}`)
  await world.decide(approval_id, 'approve')
  return body
}

const rm = { command: 'rm -rf ./data' }

test.each([
  'Bash',
  'PowerShell',
  'Monitor',
  'exec_command',
  'run_shell_command',
  'run_in_terminal',
  'local_shell',
])('%s: what was approved in one folder is held in another one, and without a folder', async (tool) => {
  await hold([tool])
  const agent = world.agent()
  const { params, preview } = await approved(agent, tool, rm, { cwd: '/home/me/project' })
  expect(params).toMatchObject({ ...rm, cwd: '/home/me/project' })
  expect(preview.fields).toContainEqual({ name: 'cwd', value: '/home/me/project' })
  for (const around of [{ cwd: '/srv/production' }, { cwd: '/home/me/project/../../../srv' }, {}])
    expect((await agent.ask(tool, rm, around)).decision).toBe('require_approval')
  expect((await agent.ask(tool, rm, { cwd: '/home/me//project/.' })).decision).toBe('allow')
  expect((await agent.ask(tool, rm, { cwd: '/home/me/project' })).decision).toBe('require_approval')
})

test.each(['execute_command', 'BASH', 'local-shell', 'mcp__shell__execute'])(
  '%s may be a shell: only the folder of a server’s tool is that of the server',
  async (tool) => {
    await world.change('POST', '/rules', { name: 'ask', verdict: 'require_approval', match_all: true })
    const agent = world.agent()
    await approved(agent, tool, rm, { cwd: '/home/me/project' })
    const isOfServer = tool.startsWith('mcp__')
    const { decision } = await agent.ask(tool, rm, { cwd: '/srv/production' })
    expect(decision).toBe(isOfServer ? 'allow' : 'require_approval')
  },
)

test('an own folder that is no text stays a part of the call', async () => {
  await world.change('POST', '/rules', { name: 'ask', verdict: 'require_approval', match_all: true })
  const agent = world.agent()
  const around = { cwd: '/home/me/project' }
  await approved(agent, 'execute_command', { ...rm, cwd: { at: 1 } }, around)
  const { decision } = await agent.ask('execute_command', { ...rm, cwd: { at: 2 } }, around)
  expect(decision).toBe('require_approval')
})

test('a relative path of a file is read from the folder of the question', async () => {
  await hold(['Write'])
  const agent = world.agent()
  const input = { file_path: 'notes.txt', content: 'x' }
  const { params } = await approved(agent, 'Write', input, { cwd: '/home/me' })
  expect(params.file_path).toEqual({ 1: 'notes.txt', 2: '/home/me/notes.txt' })
  expect((await agent.ask('Write', input, { cwd: '/srv' })).decision).toBe('require_approval')
  expect((await agent.ask('Write', input, { cwd: '/home/me' })).decision).toBe('allow')
})

test('the same id of a call in another folder is another call', async () => {
  await hold()
  const agent = world.agent()
  const asked = { ...agent.question('Bash', rm), cwd: '/home/me' }
  await world.decide((await agent.send(asked)).body.approval_id, 'approve')
  expect((await agent.send(asked)).body.decision).toBe('allow')
  expect((await agent.send(asked)).body.decision).toBe('allow')
  expect((await agent.send({ ...asked, cwd: '/srv' })).body.decision).toBe('require_approval')
})

test('an own folder of the call is read from the folder of the client, and both are shown', async () => {
  await hold()
  const agent = world.agent()
  const input = { ...rm, workdir: '../production' }
  const { preview } = await approved(agent, 'Bash', input, { cwd: '/srv/test', real_folders: ['/mnt/1'] })
  expect(preview.fields).toContainEqual({
    name: 'cwd',
    value: '/srv/test, /srv/test/../production, /srv/production, /mnt/1',
  })
  expect(preview.note).toContain('in each of the folders')
  expect((await agent.ask('Bash', input, { cwd: '/srv/other', real_folders: ['/mnt/1'] })).decision).toBe(
    'require_approval',
  )
})

describe('a folder that cannot be read is denied', () => {
  test.each<[string, object, object]>([
    ['relative', {}, { cwd: 'project' }],
    ['two lines', {}, { cwd: '/srv/a\nb' }],
    ['NUL', {}, { cwd: '/srv/a\0b' }],
    ['turned around', {}, { cwd: '/srv/\u202egpj' }],
    ['no text', {}, { cwd: ['/srv'] }],
    ['too long', {}, { cwd: `/${'a'.repeat(4_096)}` }],
    ['above the root', {}, { cwd: '/../srv' }],
    ['an own folder that is no text', { cwd: { 1: '/srv' } }, { cwd: '/srv' }],
    ['an own folder of two lines', { workdir: 'a\nb' }, { cwd: '/srv' }],
    ['scripts among the arguments', { scripts: [script('/a', '0')] }, { cwd: '/srv' }],
  ])('%s', async (_, input, around) => {
    expect((await world.agent().ask('Bash', { command: 'ls', ...input }, around)).decision).toBe('deny')
    const event = {
      hook_event_name: 'PreToolUse',
      session_id: newId('session'),
      tool_name: 'Bash',
      tool_input: { command: 'ls', ...input },
      ...around,
    }
    const { body } = await server.call(world.member.key, 'POST', '/hooks/claude-code', event)
    expect(body.hookSpecificOutput.permissionDecision).toBe('deny')
  })
})

test('the http hook: held again in another folder, and the page says that no script is covered', async () => {
  await hold()
  const session_id = newId('session')
  const hook = async (cwd: string) => {
    const body = { hook_event_name: 'PreToolUse', session_id, tool_name: 'Bash', cwd }
    const event = { ...body, tool_input: { command: './deploy.sh' } }
    return (await server.call(world.member.key, 'POST', '/hooks/claude-code?wait=0', event)).body
  }
  await hook('/home/me')
  const { data } = (await server.call(world.admin.key, 'GET', `/approvals?status=pending`)).body
  expect(data[0].preview.note).toBe(
    'The approval does not cover the content of “./deploy.sh”: it may change until it runs.',
  )
  await world.decide(data[0].id, 'approve')
  expect(await hook('/srv')).toHaveProperty('hookSpecificOutput')
  expect(await hook('/home/me')).toEqual({})
})

describe('a script that the command runs', () => {
  const cwd = '/w'
  const scripts = [script('/w/deploy.sh', 'a')]

  test.each([
    './deploy.sh',
    'sh ./deploy.sh now',
    '. ./deploy.sh',
    'sudo -u me ./deploy.sh',
    'bash -c "./deploy.sh"',
    'cat ./deploy.sh | bash',
    'bash < ./deploy.sh',
    'find . -exec ./deploy.sh {} +',
  ])('%s: a change of its content, of its file or of what is sent holds the call again', async (command) => {
    await hold()
    const agent = world.agent()
    const { preview } = await approved(agent, 'Bash', { command }, { cwd, scripts })
    expect(preview.fields).toContainEqual({
      name: 'scripts',
      value: './deploy.sh, the file /w/deploy.sh: SHA-256 aaaaaaaaaaaa…',
    })
    for (const sent of [
      [script('/w/deploy.sh', 'b')],
      [script('/srv/deploy.sh', 'a')],
      [{ ...script('/w/deploy.sh', 'a'), sha256: null }],
      [...scripts, script('/w/sub/deploy.sh', 'a')],
      [],
    ])
      expect((await agent.ask('Bash', { command }, { cwd, scripts: sent })).decision).toBe('require_approval')
    const { decision } = await agent.ask('Bash', { command }, { cwd, scripts })
    expect(decision).toBe('allow')
  })

  test('a name that is only known when the command runs is shown with `[…]`', async () => {
    await hold()
    const { preview } = await approved(world.agent(), 'Bash', { command: 'bash ./$NAME.sh' }, { cwd })
    const value = expect.stringContaining('./[…].sh: its content is not covered')
    expect(preview.fields).toContainEqual({ name: 'scripts', value })
    expect(preview.note).toContain('does not cover the content of “./[…].sh”')
  })

  test.each([
    ['make test', script('/w/Makefile', '1', 'make'), '2'],
    ['cat deploy | sh', script('/w/deploy', '1', 'deploy'), '2'],
    ['python3 - < deploy', script('/w/deploy', '1', 'deploy'), '2'],
    ['python3 -m tools', script('/w/tools.py', '1', 'tools'), '2'],
    ['read c < deploy; $c', script('/w/deploy', '1', 'deploy'), '2'],
  ])('%s: a file that the command runs without naming it as a script', async (command, sent, digit) => {
    await hold()
    const agent = world.agent()
    const input = { command }
    const { params } = await approved(agent, 'Bash', input, { cwd, scripts: [sent] })
    expect(params.scripts).toContainEqual(sent)
    const changed = { ...sent, sha256: digit.repeat(64) }
    expect((await agent.ask('Bash', input, { cwd, scripts: [changed] })).decision).toBe('require_approval')
    expect((await agent.ask('Bash', input, { cwd, scripts: [sent] })).decision).toBe('allow')
  })

  test('a file that the command only reads may change', async () => {
    await hold()
    const agent = world.agent()
    const input = { command: 'python3 a.py log.txt data.csv' }
    const sent = (digit: string) => [script('/w/a.py', '1', 'a.py'), script('/w/log.txt', digit, 'log.txt')]
    const { params } = await approved(agent, 'Bash', input, { cwd, scripts: sent('a') })
    expect(params.scripts).toEqual([script('/w/a.py', '1', 'a.py')])
    expect((await agent.ask('Bash', input, { cwd, scripts: sent('b') })).decision).toBe('allow')
  })
})

test('rules read the folder in plain form, and each folder in which the call may run', async () => {
  const condition = (operator: string, value: string) => [{ param: 'cwd', operator, value }]
  const deny = { name: 'no', verdict: 'deny', tools: ['Bash'], params: condition('startswith', '/srv/www/') }
  await world.change('POST', '/rules', deny)
  const agent = world.agent()
  const asked = async (around: object, input = {}) => {
    const call = { tool: 'Bash', source: 'agents', params: { command: 'ls', ...input, ...around } }
    const path = `/organizations/${world.organizationId}/rules/test`
    const { body } = await server.call(world.admin.key, 'POST', path, { call })
    const { decision } = await agent.ask('Bash', { command: 'ls', ...input }, around)
    expect([around, body.decision]).toEqual([around, decision])
    return decision
  }
  for (const cwd of ['/srv/www', '/srv/www/', '/srv//www/a', '/srv/x/../www', '/srv/./www/.'])
    expect([cwd, await asked({ cwd })]).toEqual([cwd, 'deny'])
  for (const cwd of ['/srv/www-old', '/srv', '/home/srv/www'])
    expect([cwd, await asked({ cwd })]).toEqual([cwd, 'allow'])
  for (const around of [{ cwd: '/w', real_folders: ['/srv/www'] }, { cwd: '/srv/x' }])
    expect((await agent.ask('Bash', { command: 'ls', workdir: '../www' }, around)).decision).toBe('deny')
  await world.change('POST', '/rules', {
    name: 'only here',
    verdict: 'deny',
    tools: ['PowerShell'],
    params: [{ param: 'cwd', operator: 'not_in', value: ['C:\\Work'] }],
  })
  for (const [cwd, decision] of [
    ['c:\\work\\', 'allow'],
    ['C:/Work/x/..', 'allow'],
    ['C:\\Work\\..\\Windows', 'deny'],
  ])
    expect([cwd, (await agent.ask('PowerShell', { command: 'ls' }, { cwd })).decision]).toEqual([
      cwd,
      decision,
    ])
})

test('the report of a finished call finds its decision without folder and scripts', async () => {
  const agent = world.agent()
  const around = { cwd: '/w', scripts: [script('/w/deploy.sh', 'a')] }
  const withId = agent.question('Bash', { command: './deploy.sh' })
  const { tool_use_id: _, ...without } = agent.question('Bash', { command: './deploy.sh 2' })
  for (const asked of [withId, without]) {
    await agent.send({ ...asked, ...around })
    expect((await agent.finish(asked)).unapproved).toBe(false)
  }
  expect((await agent.finish(without)).unapproved).toBe(true)
  expect((await agent.finish({ ...withId, tool_input: { command: './deploy.sh 3' } })).unapproved).toBe(true)
})
