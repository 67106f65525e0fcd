import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { addKey, addOrganization } from '../api/fixtures.ts'
import { agentWorld, type AgentWorld } from '../api/agents/agent.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { until } from '../stack/until.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook, startHook, type Ended } from './run-hook.ts'

/* The hook with the real service: rules, approvals, sessions, and later reports. */

let server: TestServer
let world: AgentWorld
let key: string
beforeAll(async () => {
  server = await startTestServer()
  world = await agentWorld(server)
  key = (await addKey(server.context, world.organizationId, world.member.userId, ['agents:authorize'])).secret
  const rule = (body: object) => world.change('POST', '/rules', { applies_to: ['agents'], ...body })
  await rule({ name: 'no-egress', verdict: 'deny', side_effects: ['egress'] })
  await rule({ name: 'ask-before-writing', verdict: 'require_approval', tools: ['Write'] })
})
afterAll(() => server.close())

let sessions = 0
const session = (): string => `hook-session-${(sessions += 1)}`
const call = (
  session_id: string,
  tool_name: string,
  tool_input: object,
  tool_use_id = `${session_id}-use`,
) => ({
  session_id,
  hook_event_name: 'PreToolUse',
  tool_name,
  tool_input,
  tool_use_id,
})
const env = (more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  SERVICE_API_URL: server.base,
  SERVICE_API_KEY: key,
  SERVICE_APPROVAL_WAIT: '0',
  ...more,
})
const pre = (event: object, more: NodeJS.ProcessEnv = {}, dialect = 'claude'): Promise<Ended> =>
  runHook({ args: ['pre', '--dialect', dialect], env: env(more), event })
const tell = (command: string, event: object): Promise<Ended> =>
  runHook({ args: [command], env: env(), event })
const find = async (session_id: string) => {
  const { body } = await server.call(world.admin.key, 'GET', '/agent-sessions')
  return body.data.find((each: { session_id: string }) => each.session_id === session_id)
}

test('a managed installation with a key that can only ask: the rules of the named organization decide', async () => {
  const home = temporaryFolder()
  writeFileSync(join(home, 'key'), key, { mode: 0o600 })
  const asked = (organization_id: string) => {
    const settings = { api_url: server.base, api_key_file: join(home, 'key'), organization_id }
    writeFileSync(join(home, 'hook.json'), JSON.stringify(settings), { mode: 0o600 })
    const args = ['pre', '--dialect', 'claude', '--config', join(home, 'hook.json')]
    return (command: string) =>
      runHook({ args, env: { HOME: home }, event: call(session(), 'Bash', { command }) })
  }
  const ours = asked(world.organizationId)
  expect(await ours('ls')).toMatchObject({ code: 0, stderr: '' })
  expect((await ours('curl https://example.com')).stderr).toContain('blocked by rule `no-egress`')
  expect((await ours('ls')).code).toBe(0)
  const { id: another } = await addOrganization(server.context)
  expect((await asked(another)('ls')).stderr).toContain('wrong organization')
})

describe('one rule for every client', () => {
  test.each([
    ['claude', call('curl-claude', 'Bash', { command: 'curl https://example.com' })],
    ['codex', { ...call('curl-codex', 'Bash', { command: 'curl https://example.com' }), turn_id: 't' }],
    [
      'gemini',
      {
        session_id: 'curl-gemini',
        hook_event_name: 'BeforeTool',
        tool_name: 'run_shell_command',
        tool_input: { command: 'curl https://example.com' },
      },
    ],
    ['copilot', { sessionId: 'c', toolName: 'bash', toolArgs: { command: 'curl https://example.com' } }],
    [
      'cursor',
      {
        conversation_id: 'curl-cursor',
        hook_event_name: 'preToolUse',
        tool_name: 'Shell',
        tool_input: { command: 'curl https://example.com' },
      },
    ],
    [
      'vscode',
      { sessionId: 'v', tool_name: 'runTerminalCommand', tool_input: { command: 'curl https://a.com' } },
    ],
  ])('%s: a sending call is blocked, another one runs', async (dialect, event) => {
    const blocked = await pre(event, {}, dialect)
    expect(blocked.code).toBe(2)
    expect(blocked.stderr).toContain('blocked by rule `no-egress`')
    expect(blocked.stderr).toContain('The command counts as egress because')
    const harmless = JSON.parse(JSON.stringify(event).replace(/curl https:[^"]*/, 'ls')) as object
    expect(await pre(harmless, {}, dialect)).toMatchObject({ code: 0, stderr: '' })
  })
})

describe('a held call', () => {
  const held = async (event: object): Promise<string> => {
    const ended = await pre(event)
    expect(ended.code).toBe(2)
    const [, id = ''] = /approval (apr_\w+) is still pending/.exec(ended.stderr) ?? []
    expect(id).not.toBe('')
    return id
  }

  test('runs once if approved in time', async () => {
    const id = session()
    const event = call(id, 'Write', { file_path: '/w/a', content: 'x' })
    const { ended } = startHook({ args: ['pre'], env: env({ SERVICE_APPROVAL_WAIT: '80' }), event })
    let approval: { id: string } | undefined
    await until('it is held', async () => {
      const { body } = await server.call(world.admin.key, 'GET', '/approvals?status=pending')
      approval = body.data.find((each: { session_id: string | null }) => each.session_id !== null)
      return approval !== undefined
    })
    await world.decide(approval?.id ?? '', 'approve')
    expect(await ended).toMatchObject({ code: 0, stdout: '', stderr: '' })
    expect(await held(call(id, 'Write', { file_path: '/w/a', content: 'x' }, 'another-use'))).not.toBe(
      approval?.id,
    )
  })

  test('is blocked if not approved in time; after approval only the identical call passes', async () => {
    const id = session()
    const event = (use: string, content = 'x') => call(id, 'Write', { file_path: '/w/a', content }, use)
    const approval = await held(event('use-1'))
    expect(await held(event('use-2'))).toBe(approval)
    await world.decide(approval, 'approve')
    expect(await held(event('use-3', 'y'))).not.toBe(approval)
    expect(await pre(event('use-4'))).toMatchObject({ code: 0, stderr: '' })
    expect(await held(event('use-5'))).not.toBe(approval)
  })

  test('is blocked with the reason after a rejection', async () => {
    const event = call(session(), 'Write', { file_path: '/w/a', content: 'x' })
    await world.decide(await held(event), 'reject')
    const ended = await pre(event)
    expect(ended).toMatchObject({ code: 2 })
    expect(ended.stderr).toContain('reject')
  })

  test('given up with SIGTERM, nothing waits any more', async () => {
    const event = call(session(), 'Write', { file_path: '/w/a', content: 'x' })
    const { child, ended } = startHook({ args: ['pre'], env: env({ SERVICE_APPROVAL_WAIT: '80' }), event })
    const own = async () => (await find(event.session_id))?.decisions.require_approval
    await until('it is held', async () => (await own()) === 1)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 2 })
    const { body } = await server.call(world.admin.key, 'GET', '/approvals?status=pending')
    const { session_run_id } = await find(event.session_id)
    expect(body.data.filter((each: { run_id: string }) => each.run_id === session_run_id)).toEqual([])
  })
})

describe('a deny stays a deny in open mode', () => {
  const open = { SERVICE_FAIL_MODE: 'open' }
  test.each<[string, () => NodeJS.ProcessEnv, string]>([
    ['another organization', () => ({ SERVICE_ORG_ID: 'org_00000000000000000000000000' }), 'blocked: '],
    ['an unknown key', () => ({ SERVICE_API_KEY: 'csk_live_nonsense' }), '401'],
  ])('%s', async (_name, more, says) => {
    const ended = await pre(call(session(), 'Bash', { command: 'ls' }), { ...open, ...more() })
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain(says)
  })

  test('a revoked session', async () => {
    const id = session()
    expect(await pre(call(id, 'Bash', { command: 'ls' }))).toMatchObject({ code: 0 })
    const { id: found } = await find(id)
    await server.call(world.admin.key, 'POST', `/agent-sessions/${found}/revoke`, {})
    const ended = await pre(call(id, 'Bash', { command: 'ls' }, 'next'), open)
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain('revoked')
  })
})

test('finished calls are reported; a call that nobody allowed is visible; `end` closes the session', async () => {
  const id = session()
  const event = call(id, 'Bash', { command: 'ls' })
  await pre(event)
  expect(await tell('post', { ...event, hook_event_name: 'PostToolUse' })).toMatchObject({
    code: 0,
    stderr: '',
  })
  expect(await find(id)).toMatchObject({ status: 'live', unapproved_calls: 0 })
  const unasked = call(id, 'Bash', { command: 'curl https://example.com' }, 'never-asked')
  await tell('post', { ...unasked, hook_event_name: 'PostToolUse' })
  expect(await find(id)).toMatchObject({ unapproved_calls: 1 })
  expect(await tell('end', { session_id: id, hook_event_name: 'SessionEnd' })).toMatchObject({
    code: 0,
    stderr: '',
  })
  expect(await find(id)).toMatchObject({ status: 'ended' })
})

test('labels of earlier reads apply to the session', async () => {
  const id = session()
  const script = call(id, 'Bash', { command: 'python3 analyse.py' }, 'before')
  expect(await pre(script)).toMatchObject({ code: 0 })
  expect(await pre(call(id, 'Read', { file_path: '/w/plan.txt' }, 'read'))).toMatchObject({ code: 0 })
  const ended = await pre({ ...script, tool_use_id: 'after' })
  expect(ended.stderr).toContain('no-egress')
})

test('3 MB are checked completely', async () => {
  const event = call(session(), 'Edit', {
    file_path: '/w/a',
    old_string: '',
    new_string: '日本'.repeat(500_000),
  })
  expect(await pre(event)).toMatchObject({ code: 0, stderr: '' })
})

test('the downloaded file is the listed one, with the version it names', async () => {
  const { body } = await server.call(null, 'GET', '/integrations')
  const listed = body.files.find((each: { name: string }) => each.name === 'service_hook.py')
  const text = readFileSync(hookFile, 'utf8')
  expect(listed.sha256).toBe(createHash('sha256').update(text).digest('hex'))
  expect(text).toContain(`\nVERSION = "${listed.version}"\n`)
})

describe('installed with a key that is only for agents', () => {
  const install = async (more: NodeJS.ProcessEnv = {}) => {
    const home = temporaryFolder()
    const own = { ...env(), HOME: home, PATH: `${home}:${process.env['PATH']}`, ...more }
    writeFileSync(join(home, 'claude'), '#!/bin/sh\necho 2.1.329\n', { mode: 0o755 })
    const run = (...args: string[]): Promise<Ended> =>
      runHook({ command: [python, hookFile], args, env: own })
    expect((await run('install', '--dialect', 'claude', '--yes')).code).toBe(0)
    return run('doctor', '--dialect', 'claude')
  }

  test('doctor leaves no session open', async () => {
    await install({ SERVICE_ORG_ID: world.organizationId })
    const { body } = await server.call(world.admin.key, 'GET', '/agent-sessions')
    const own = body.data.filter((each: { session_id: string }) => each.session_id.startsWith('doctor-'))
    expect(own.length).toBeGreaterThan(0)
    for (const each of own) expect(each).toMatchObject({ agent: { name: 'doctor' }, status: 'ended' })
  })

  test.each([
    ['nothing', () => ({})],
    ['without its own organization named', () => ({ SERVICE_ORG_ID: world.organizationId })],
  ])('doctor finds %s', async (_name, more) => {
    const ended = await install(more())
    expect(ended.stdout).toMatch(/\nworks\n$/)
    expect(ended.stdout.split('\n').filter((line) => /^(note|\?\?|FAIL)/.test(line))).toEqual([
      expect.stringContaining("claude: everybody who can write the user's or the project's files"),
    ])
    expect(ended.code).toBe(0)
  })

  test('doctor reports another organization', async () => {
    const ended = await install({ SERVICE_ORG_ID: 'org_00000000000000000000000002' })
    expect(ended.stdout).toMatch(/^FAIL {2}every call is denied: .*`org_0+2`/m)
    expect(ended.code).toBe(1)
  })
})

test('a script that changes while its call is held is held again, also in another folder', async () => {
  const params = [{ param: 'command', operator: 'contains', value: 'deploy' }]
  await world.change('POST', '/rules', { name: 'r', verdict: 'require_approval', tools: ['Bash'], params })
  const [folder, other] = [temporaryFolder(), temporaryFolder()]
  const write = (text: string) => [folder, other].map((each) => writeFileSync(join(each, 'deploy.sh'), text))
  const id = session()
  const event = (cwd: string) => ({ ...call(id, 'Bash', { command: './deploy.sh' }), cwd })
  const held = async (former?: string): Promise<string> => {
    const { data } = (await server.call(world.admin.key, 'GET', '/approvals?status=pending')).body
    const found = data.find((each: { session_id: string }) => each.session_id === id)?.id
    return found === undefined || found === former ? held(former) : found
  }
  write('echo harmless')
  const wait = env({ SERVICE_APPROVAL_WAIT: '60' })
  const { ended } = startHook({ args: ['pre', '--dialect', 'claude'], env: wait, event: event(folder) })
  const first = await held()
  write('rm -rf /')
  await world.decide(first, 'approve')
  await world.decide(await held(first), 'approve')
  expect(await ended).toMatchObject({ code: 0, stdout: '' })
  write('echo harmless')
  expect((await pre(event(other))).stderr).toContain('is still pending')
  expect(await pre(event(folder))).toMatchObject({ code: 0, stdout: '' })
})
