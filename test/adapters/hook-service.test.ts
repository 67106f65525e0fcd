import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { agentTool, agentToolNames } from '../../src/policy/agent-tools.ts'
import { agentWorld, type AgentWorld } from '../api/agents/agent.ts'
import { addKey, addOrganization } from '../api/fixtures.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { hookFile, python, runHook, startHook, type Ended } from './run-hook.ts'

let server: TestServer
let world: AgentWorld
let key: string
beforeAll(async () => {
  server = await startTestServer()
  world = await agentWorld(server)
  key = await keyOf(world, 'member', ['agents:authorize'])
  const rule = (body: object) => world.change('POST', '/rules', { applies_to: ['agents'], ...body })
  await rule({ name: 'no-egress', verdict: 'deny', side_effects: ['egress'] })
  await rule({ name: 'ask-before-writing', verdict: 'require_approval', tools: ['Write'] })
})
afterAll(() => server.close())

const keyOf = async (world: AgentWorld, person: 'admin' | 'member', scopes: readonly string[]) =>
  (await addKey(server.context, world.organizationId, world[person].userId, scopes)).secret

let sessions = 0
const session = (): string => `hook-session-${(sessions += 1)}`
const call = (
  session_id: string,
  tool_name: string,
  tool_input: object,
  tool_use_id = `${session_id}-use`,
) => ({ session_id, hook_event_name: 'PreToolUse', tool_name, tool_input, tool_use_id })
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
  const curl = { command: 'curl https://example.com' }
  test.each([
    ['claude', call('curl-claude', 'Bash', curl)],
    ['codex', { ...call('curl-codex', 'Bash', curl), turn_id: 't' }],
    ['gemini', { ...call('curl-gemini', 'run_shell_command', curl), hook_event_name: 'BeforeTool' }],
    ['copilot', { sessionId: 'c', toolName: 'bash', toolArgs: curl }],
    ['cursor', { conversation_id: 'd', hook_event_name: 'preToolUse', tool_name: 'Shell', tool_input: curl }],
    ['vscode', { sessionId: 'v', tool_name: 'runTerminalCommand', tool_input: curl }],
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
  const quiet = { code: 0, stderr: '' }
  expect(await tell('post', { ...event, hook_event_name: 'PostToolUse' })).toMatchObject(quiet)
  expect(await find(id)).toMatchObject({ status: 'live', unapproved_calls: 0 })
  const unasked = call(id, 'Bash', { command: 'curl https://example.com' }, 'never-asked')
  await tell('post', { ...unasked, hook_event_name: 'PostToolUse' })
  expect(await find(id)).toMatchObject({ unapproved_calls: 1 })
  expect(await tell('end', { session_id: id, hook_event_name: 'SessionEnd' })).toMatchObject(quiet)
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
  const large = { file_path: '/w/a', old_string: '', new_string: '日本'.repeat(500_000) }
  const event = call(session(), 'Edit', large)
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

describe('arguments in all spellings that clients use', () => {
  const secret = '/srv/secret/x'
  let world: AgentWorld
  let env: NodeJS.ProcessEnv
  beforeAll(async () => {
    world = await agentWorld(server)
    const key = await keyOf(world, 'member', ['agents:authorize'])
    env = { SERVICE_API_URL: server.base, SERVICE_API_KEY: key, SERVICE_APPROVAL_WAIT: '0' }
    const rule = (name: string, param: string, operator: string, value: unknown, more: object = {}) =>
      world.change('POST', '/rules', {
        ...{ applies_to: ['agents'], verdict: 'deny', name, params: [{ param, operator, value }], ...more },
      })
    await rule('contains', 'file_path', 'contains', 'secret')
    await rule('startswith', 'file_path', 'startswith', '/srv/private/')
    await rule('notebooks', 'notebook_path', 'startswith', '/srv/private/')
    await rule('folders', 'path', 'startswith', '/srv/private')
    await rule('equals', 'file_path', 'equals', '/etc/passwd')
    await rule('domains', 'url', 'domain_in', ['evil.example'])
    await rule('addresses', 'url', 'contains', '/leak')
    await rule('contents', 'content', 'contains', 'BEGIN PRIVATE KEY')
    await rule('words', 'command', 'contains', 'rm -rf')
    await rule('not-here', 'file_path', 'not_in', ['/w/only'], { tools: ['MultiEdit'] })
    await rule('labelled', 'file_path', 'from_label', ['untrusted'], { tools: ['Write'] })
  })

  let calls = 0
  const pre = (
    dialect: string,
    tool_name: string,
    tool_input: unknown,
    more: object = {},
  ): Promise<Ended> => {
    calls += 1
    const session_id = `arguments-${calls}`
    const own = { session_id, hook_event_name: 'PreToolUse', cwd: '/srv/project' }
    const event = { ...own, tool_name, tool_input, ...more }
    return runHook({ args: ['pre', '--dialect', dialect], env, event })
  }
  const patch = (...lines: string[]): string => ['*** Begin Patch', ...lines, '*** End Patch'].join('\n')

  test.each<[string, string, unknown, string]>([
    ['copilot', 'view', { path: secret, file_path: '/tmp/harmless' }, 'contains'],
    ['copilot', 'view', { path: '/tmp/harmless', file_path: secret }, 'contains'],
    ['copilot', 'create', { path: '/w/a', file_text: 'BEGIN PRIVATE KEY', content: 'x' }, 'contents'],
    ['copilot', 'create', '{"path": "/srv/secret/x", "file_text": ""}', 'contains'],
    ['gemini', 'read_many_files', { paths: [secret, '/tmp/y'] }, 'contains'],
    ['gemini', 'read_many_files', { paths: [secret] }, 'contains'],
    ['gemini', 'read_many_files', { include: ['/tmp/y', '/srv/private/x'] }, 'startswith'],
    ['gemini', 'read_many_files', { file_path: ['/tmp/y', '/srv/private/x'] }, 'startswith'],
    ['gemini', 'read_file', { file_path: ['/etc/passwd'] }, 'equals'],
    ['gemini', 'web_fetch', { prompt: 'https://good.example https://www.evil.example/a' }, 'domains'],
    ['gemini', 'web_fetch', { prompt: 'https://good.example https://good.example/leak?x' }, 'addresses'],
    ['gemini', 'list_directory', { dir_path: '../private' }, 'folders'],
    ['codex', 'apply_patch', patch('*** Add File: /w/a', ` *** Delete File: ${secret}`), 'contains'],
    ['codex', 'apply_patch', { command: patch('*** Add File: //etc/passwd', '+x') }, 'equals'],
    [
      'codex',
      'apply_patch',
      patch('*** Add File: ../private/a', '+x', '*** Add File: b', '+x'),
      'startswith',
    ],
    ['codex', 'shell', { command: ['rm', '-rf', '/'] }, 'words'],
    [
      'vscode',
      'multi_replace_string_in_file',
      { replacements: [{ filePath: '/w' }, { filePath: secret }] },
      'contains',
    ],
    ['vscode', 'read_file', { filePath: 'file:///srv/private/x' }, 'startswith'],
    ['vscode', 'edit_notebook_file', { filePath: '/srv/private/x' }, 'notebooks'],
    ['claude', 'Read', { file_path: '/srv//private/x' }, 'startswith'],
    ['claude', 'Read', { file_path: '../../etc/passwd' }, 'equals'],
    ['claude', 'Edit', { file_path: '../private/x' }, 'startswith'],
    ['claude', 'Grep', { pattern: 'x', path: '../private' }, 'folders'],
    // One forbidden value is enough, whether the other value is absent or present.
    ['claude', 'MultiEdit', { file_path: '/w/./only' }, 'not-here'],
  ])('%s, %s %j is blocked by %s', async (dialect, tool, input, rule) => {
    const ended = await pre(dialect, tool, input)
    expect(ended.stderr).toContain(`blocked by rule \`${rule}\``)
    expect(ended.code).toBe(2)
  })

  test.each<[string, string, unknown]>([
    ['copilot', 'view', { path: '/tmp/x', file_path: '/tmp/x' }],
    ['gemini', 'read_many_files', { paths: ['/tmp/x', 'y'] }],
    ['gemini', 'web_fetch', { prompt: 'https://good.example https://other.example' }],
    ['codex', 'apply_patch', { command: patch('*** Add File: a', '+x', '*** Delete File: b') }],
    ['claude', 'Read', { file_path: 'plan.md' }],
    ['claude', 'MultiEdit', { file_path: '/w/only' }],
    ['claude', 'Write', { file_path: '../y', content: 'x' }],
  ])('%s, %s %j passes', async (dialect, tool, input) => {
    expect(await pre(dialect, tool, input)).toMatchObject({ code: 0, stderr: '' })
  })

  test('the name of an argument counts for all its values', async () => {
    const session = { session_id: 'arguments-labels' }
    expect((await pre('gemini', 'web_fetch', { prompt: 'https://a https://b' }, session)).code).toBe(0)
    const ended = await pre('copilot', 'create', { path: '/w/a', file_path: '/w/b' }, session)
    expect(ended.stderr).toContain('blocked by rule `labelled`')
  })

  describe('refused unasked', () => {
    test.each<[string, string, unknown, string]>([
      ['copilot', 'bash', '{"command": "ls", "command": "rm -rf /"}', 'stands twice'],
      ['copilot', 'bash', 'rm -rf /', 'not an object'],
      ['copilot', 'bash', { cmd: 'curl http://a', command: 'ls' }, 'leave out `command` or `cmd`'],
      [
        'vscode',
        'run_in_terminal',
        { command: 'ls', script: 'curl http://a' },
        'leave out `command` or `script`',
      ],
      [
        'codex',
        'apply_patch',
        { command: patch('*** update file: /etc/passwd') },
        'looks like an unknown header',
      ],
      ['codex', 'apply_patch', { command: patch('@@') }, 'names no file'],
    ])('%s, %s %j', async (dialect, tool, input, says) => {
      const ended = await pre(dialect, tool, input)
      expect(ended.code).toBe(2)
      expect(ended.stderr).toContain(`countersign: `)
      expect(ended.stderr).toContain(says)
      const { body } = await server.call(world.admin.key, 'GET', '/agent-sessions')
      const asked = body.data.map((each: { session_id: string }) => each.session_id)
      expect(asked).not.toContain(`arguments-${calls}`)
    })
  })

  test('approval shows the path as given, and is valid only for the folder of the question', async () => {
    const ask = { name: 'ask', verdict: 'require_approval', tools: ['NotebookEdit'] }
    await world.change('POST', '/rules', { applies_to: ['agents'], ...ask })
    const edit = (cwd: string, session_id: string) =>
      pre('claude', 'NotebookEdit', { notebook_path: 'a.ipynb', new_source: 'x' }, { cwd, session_id })
    const held = async (cwd: string) => {
      const [, id = ''] =
        /approval (apr_\w+) is still pending/.exec((await edit(cwd, 'arguments-held')).stderr) ?? []
      return id
    }
    const first = await held('/srv/one')
    await world.decide(first, 'approve')
    expect(await held('/srv/two')).not.toBe(first)
    expect(await edit('/srv/one', 'arguments-held')).toMatchObject({ code: 0, stderr: '' })
  })
})

describe('`install --starter-rules`', () => {
  const names = [
    'Agents: company data waits before it is sent',
    'Agents: files with secrets wait',
    'Agents: commands and searches that name secrets wait',
    'Agents: forced pushes wait',
    'Agents: unclassed MCP tools wait',
  ]
  const install = (
    key: string,
    rules: string,
    more: NodeJS.ProcessEnv = {},
    home = temporaryFolder(),
  ): Promise<Ended> =>
    runHook({
      command: [python, hookFile],
      args: ['install', '--dialect', 'claude', '--yes', '--starter-rules', rules],
      env: { SERVICE_API_URL: server.base, SERVICE_API_KEY: key, HOME: home, ...more },
    })
  const saved = async (world: AgentWorld): Promise<Record<string, string>> => {
    const path = `/organizations/${world.organizationId}/rules`
    const { body } = await server.call(world.owner.key, 'GET', path)
    return Object.fromEntries(body.data.map(({ name, status }: Record<string, string>) => [name, status]))
  }
  const all = (status: string): Record<string, string> =>
    Object.fromEntries(names.map((name) => [name, status]))

  test('observe only records, careful holds, and neither doubles or weakens a rule', async () => {
    const world = await agentWorld(server)
    const rulesKey = await keyOf(world, 'admin', ['rules:*'])
    const agentKey = await keyOf(world, 'member', ['agents:authorize'])
    const home = temporaryFolder()
    const again = (rules: string): Promise<Ended> =>
      install(agentKey, rules, { SERVICE_RULES_KEY: rulesKey }, home)

    const first = await again('observe')
    expect([first.code, first.stderr]).toEqual([0, ''])
    for (const name of names)
      expect(first.stdout).toContain(`save the rule \`${name}\` (require_approval, shadow)`)
    expect(await saved(world)).toEqual(all('shadow'))
    expect(readFileSync(join(home, '.countersign', 'hook.json'), 'utf8')).not.toContain(rulesKey)
    expect((await again('observe')).stdout).toBe('nothing to change\n')
    expect((await world.agent().ask('Bash', { command: 'git push --force' })).decision).toBe('allow')

    // Switch one rule off, as a person would.
    const { body } = await server.call(world.owner.key, 'GET', `/organizations/${world.organizationId}/rules`)
    const off = body.data.find(({ name }: { name: string }) => name === names[1]).id
    await world.change('PATCH', `/rules/${off}`, { status: 'inactive' })
    expect((await again('careful')).code).toBe(0)
    const careful = { ...all('active'), [names[1] as string]: 'inactive' }
    expect(await saved(world)).toEqual(careful)
    expect((await again('observe')).stdout).toBe('nothing to change\n')
    expect(await saved(world)).toEqual(careful)
  })

  test('installations at the same time double no rule', async () => {
    const world = await agentWorld(server)
    const ended = await Promise.all([1, 2, 3].map(() => install(world.admin.key, 'careful')))
    expect(ended.map(({ code, stderr }) => [code, stderr])).toEqual(ended.map(() => [0, '']))
    const path = `/organizations/${world.organizationId}/rules`
    const { body } = await server.call(world.owner.key, 'GET', path)
    expect(body.data.map(({ name }: { name: string }) => name).sort()).toEqual([...names].sort())
  })

  test('what the careful rules hold', async () => {
    const world = await agentWorld(server)
    expect((await install(world.admin.key, 'careful')).code).toBe(0)
    const ask = async (tool: string, input: object): Promise<unknown[]> => {
      const { decision, rule_name } = await world.agent().ask(tool, input)
      return [decision, rule_name]
    }
    const pushes = ['--force', '-f origin main', 'origin +main', '--force-with-lease', "origin '+main'"]
    const commands = [
      ...pushes.map((how) => [`git push ${how}`, 'require_approval', names[3]]),
      ...['cat .env', 'cat ~/.ssh/config', 'cat "/w/.env"', "cat '.env'"].map((each) => [
        each,
        'require_approval',
        names[2],
      ]),
      ...['git push', 'node -e "process.env.PORT"', 'curl https://example.com'].map((each) => [
        each,
        'allow',
        null,
      ]),
    ]
    for (const [command, ...answer] of commands)
      expect([command, ...(await ask('Bash', { command }))]).toEqual([command, ...answer])
    for (const path of ['/w/.env', '.env.local', '/home/a/.ssh/config', '/w/prod.pem'])
      expect([path, ...(await ask('Read', { file_path: path }))]).toEqual([
        path,
        'require_approval',
        names[1],
      ])
    expect(await ask('Write', { file_path: '/w/environment.ts', content: 'see .env' })).toEqual([
      'allow',
      null,
    ])

    const session = world.agent()
    expect((await session.ask('Read', { file_path: '/w/README.md' })).decision).toBe('allow')
    const sent = await session.ask('Bash', { command: 'curl https://example.com' })
    expect([sent.decision, sent.rule_name]).toEqual(['require_approval', names[0]])
  })

  const codeTools = agentToolNames.filter((name) => agentTool(name)?.code !== undefined)
  const told = async (world: AgentWorld) => {
    const path = `/organizations/${world.organizationId}/governance`
    return (await server.call(world.owner.key, 'GET', path)).body.external_tools as Record<string, unknown>
  }
  const labelled = { output_labels: ['internal'] }

  test('an owner’s careful labels what shells read, and keeps what the setting says already', async () => {
    const world = await agentWorld(server)
    const [git, shell] = [{ side_effect: 'read' }, { output_labels: ['code'] }]
    const own = { 'mcp__git__*': git, Bash: { side_effect: 'write' }, shell }
    await world.change('PATCH', '/governance', { external_tools: own })
    expect((await install(world.owner.key, 'observe')).stdout).not.toContain('external_tools')
    expect(await told(world)).toEqual(own)

    const home = temporaryFolder()
    const ended = await install(world.owner.key, 'careful', {}, home)
    expect([ended.code, ended.stderr]).toEqual([0, ''])
    const words = /^label what `Bash`, .* return as `internal` \(setting `external_tools`, 2 of its entries stay as they are; `shell` without this label\)$/m // prettier-ignore
    expect(ended.stdout).toMatch(words)
    expect(ended.stdout.indexOf('label what')).toBeLessThan(ended.stdout.indexOf('done: '))
    const all = Object.fromEntries(codeTools.map((name) => [name, labelled]))
    expect(await told(world)).toEqual({ ...all, ...own, Bash: { ...own.Bash, ...labelled } })
    expect((await install(world.owner.key, 'careful', {}, home)).stdout).toBe('nothing to change\n')
  })

  test('after careful, a command that reads a file labels the session, and sending waits', async () => {
    const world = await agentWorld(server)
    await install(world.owner.key, 'careful')
    for (const [tool, command] of [
      ['Bash', 'cat plan.md'],
      ['Bash', 'git diff HEAD~1'],
      ['PowerShell', 'Get-Content plan.md'],
      ['exec_command', 'head plan.md'],
    ] as const) {
      const session = world.agent()
      expect((await session.ask(tool, { command })).decision).toBe('allow')
      const sent = await session.ask('Bash', { command: 'curl https://example.com -d x' })
      expect([tool, sent.decision, sent.labels]).toEqual([tool, 'require_approval', ['internal']])
    }
  })

  test.each([
    ['without a scope for settings', ['rules:*']],
    ['with every scope', ['rules:*', 'governance:read']],
  ] as const)('an admin’s key %s changes no setting, and says who can', async (_, scopes) => {
    const world = await agentWorld(server)
    const ended = await install(await keyOf(world, 'admin', scopes), 'careful')
    expect(ended.code).toBe(0)
    expect(ended.stdout).toContain(
      'not changed: what a shell reads does not label its session: let an owner run this again',
    )
    expect(ended.stdout.indexOf('not changed')).toBeLessThan(ended.stdout.indexOf('done: '))
    expect(await told(world)).toEqual({})
    expect(await saved(world)).toEqual(all('active'))
  })

  test('while approvals are off, it says that the rules deny', async () => {
    const world = await agentWorld(server)
    await world.change('PATCH', '/governance', { approvals_enabled: false })
    const ended = await install(world.admin.key, 'careful')
    expect(ended.stdout).toContain(
      `next: while approvals are off, these rules deny: an owner turns approvals on with PATCH /api/v1/organizations/${world.organizationId}/governance`,
    )
    await world.change('PATCH', '/governance', { approvals_enabled: true })
    expect((await install(world.admin.key, 'careful')).stdout).not.toContain('approvals are off')
  })

  test.each([
    ['a member', 'member', ['rules:read', 'agents:authorize'], 'has the role member there'],
    ['a key that can only ask', 'admin', ['agents:authorize'], 'this key can only ask for decisions'],
    ['an admin whose key lacks the scope', 'admin', ['rules:read'], 'this key lacks rules:write'],
  ] as const)('%s is told who can save rules, and nothing is changed', async (_, person, scopes, why) => {
    const world = await agentWorld(server)
    const home = temporaryFolder()
    const ended = await install(await keyOf(world, person, scopes), 'careful', {}, home)
    expect(ended.code).toBe(1)
    expect(ended.stderr).toContain(why)
    expect(ended.stderr).toContain('ask an admin to run this, or leave --starter-rules out')
    expect(existsSync(join(home, '.claude'))).toBe(false)
    expect(await saved(world)).toEqual({})
  })

  test('an organization of which the key’s person is no member', async () => {
    const [mine, other] = [await agentWorld(server), await agentWorld(server)]
    const ended = await install(mine.admin.key, 'careful', { SERVICE_ORG_ID: other.organizationId })
    expect(ended.code).toBe(1)
    expect(ended.stderr).toContain(`is no member of ${other.organizationId}`)
    expect(await saved(other)).toEqual({})
  })
})
