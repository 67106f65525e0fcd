import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { addKey } from '../api/fixtures.ts'
import { agentWorld, type AgentWorld } from '../api/agents/agent.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { runHook, type Ended } from './run-hook.ts'

/* Arguments in all spellings that clients use, against the service's rules: no spelling escapes a rule. */

const secret = '/srv/secret/x'
let server: TestServer
let world: AgentWorld
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  server = await startTestServer()
  world = await agentWorld(server)
  const { userId } = world.member
  const { secret: key } = await addKey(server.context, world.organizationId, userId, ['agents:authorize'])
  env = { SERVICE_API_URL: server.base, SERVICE_API_KEY: key, SERVICE_APPROVAL_WAIT: '0' }
  const rule = (name: string, param: string, operator: string, value: unknown, more: object = {}) =>
    world.change('POST', '/rules', {
      applies_to: ['agents'],
      verdict: 'deny',
      name,
      params: [{ param, operator, value }],
      ...more,
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
afterAll(() => server.close())

let calls = 0
const pre = (dialect: string, tool_name: string, tool_input: unknown, more: object = {}): Promise<Ended> => {
  calls += 1
  const session_id = `arguments-${calls}`
  const event = {
    session_id,
    hook_event_name: 'PreToolUse',
    cwd: '/srv/project',
    tool_name,
    tool_input,
    ...more,
  }
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
  [
    'codex',
    'apply_patch',
    { command: patch('*** Add File: /w/a', ` *** Delete File: ${secret}`) },
    'contains',
  ],
  ['codex', 'apply_patch', { command: patch('*** Add File: //etc/passwd', '+x') }, 'equals'],
  ['codex', 'apply_patch', patch('*** Add File: ../private/a', '+x', '*** Add File: b', '+x'), 'startswith'],
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
  expect(await pre('gemini', 'web_fetch', { prompt: 'https://a https://b' }, session)).toMatchObject({
    code: 0,
  })
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
  await world.change('POST', '/rules', {
    applies_to: ['agents'],
    name: 'ask',
    verdict: 'require_approval',
    tools: ['NotebookEdit'],
  })
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
