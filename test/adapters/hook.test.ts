import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { runHook } from './run-hook.ts'
import { allowed, denied, held, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* For every dialect: the exact answer to the client, and the exact request to the service. */

const command = 'curl https://example.com'
const claude = {
  session_id: 'session-1',
  cwd: '/w',
  hook_event_name: 'PreToolUse',
  tool_name: 'Bash',
  tool_input: { command },
  tool_use_id: 'toolu_1',
}
const events: Readonly<Record<string, object>> = {
  claude,
  codex: { ...claude, turn_id: 'turn-1', model: 'gpt', tool_use_id: 'call_1' },
  gemini: {
    session_id: 'session-1',
    hook_event_name: 'BeforeTool',
    tool_name: 'run_shell_command',
    tool_input: { command },
    cwd: '/w',
  },
  copilot: { sessionId: 'session-1', timestamp: 1, cwd: '/w', toolName: 'bash', toolArgs: { command } },
  cursor: {
    conversation_id: 'session-1',
    generation_id: 'g',
    hook_event_name: 'preToolUse',
    tool_name: 'Shell',
    tool_input: { command },
    cwd: '/w',
    tool_use_id: 'tool_1',
  },
  vscode: {
    sessionId: 'session-1',
    hookEventName: 'PreToolUse',
    tool_name: 'runTerminalCommand',
    tool_input: { command },
    cwd: '/w',
    tool_use_id: 'call_1',
  },
  opencode: {
    session_id: 'session-1',
    hook_event_name: 'tool.execute.before',
    tool_name: 'bash',
    tool_input: { command },
    cwd: '/w',
    tool_use_id: 'call_1',
  },
}
const useIds: Readonly<Record<string, string>> = {
  claude: 'toolu_1',
  codex: 'call_1',
  cursor: 'tool_1',
  vscode: 'call_1',
  opencode: 'call_1',
}

const denies: Readonly<Record<string, (reason: string) => object>> = {
  claude: inClaude,
  codex: inClaude,
  gemini: (reason) => ({ decision: 'deny', reason }),
  copilot: (reason) => ({ permissionDecision: 'deny', permissionDecisionReason: reason }),
  cursor: (reason) => ({ permission: 'deny', user_message: reason, agent_message: reason }),
  vscode: inClaude,
  opencode: (reason) => ({ permission: 'deny', user_message: reason, agent_message: reason }),
}
function inClaude(reason: string): object {
  const said = { permissionDecision: 'deny', permissionDecisionReason: reason }
  return { hookSpecificOutput: { hookEventName: 'PreToolUse', ...said } }
}
const universal = (reason: string): object => ({
  decision: 'block',
  reason,
  permission: 'deny',
  user_message: reason,
  agent_message: reason,
  permissionDecision: 'deny',
  permissionDecisionReason: reason,
  ...inClaude(reason),
})

let service: ScriptedService
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  service = await scriptedService(() => {})
})
beforeEach(() => {
  service.asked.length = 0
  env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test', SERVICE_APPROVAL_WAIT: '0' }
})
afterAll(() => service.close())

const dialects = Object.keys(events)

describe.each(dialects)('%s', (dialect) => {
  const args = ['pre', '--dialect', dialect]
  const event = events[dialect] as object
  const deny = denies[dialect] as (reason: string) => object

  test('allow: the client continues, and the service gets the question in its own format', async () => {
    service.script = (_asked, socket) => reply(socket, 200, allowed)
    const ended = await runHook({ args, env, event })
    const stdout = /^(cursor|opencode)$/.test(dialect) ? '{"permission":"allow"}\n' : ''
    expect(ended).toMatchObject({ code: 0, stdout, stderr: '' })
    expect(service.asked).toHaveLength(1)
    expect(service.asked[0]).toMatchObject({
      method: 'POST',
      path: '/api/v1/authorize',
      headers: { authorization: 'Bearer csk_test', 'content-type': 'application/json' },
    })
    expect(JSON.parse(service.asked[0]?.body ?? '')).toEqual({
      agent: { name: expect.any(String), kind: 'coding_agent' },
      session_id: 'session-1',
      tool_name: 'Bash',
      tool_input: { command },
      cwd: '/w',
      ...(useIds[dialect] && { tool_use_id: useIds[dialect] }),
    })
  })

  test.each([
    ['deny', denied, 'blocked by rule `no-egress`: the side effect is `egress`'],
    [
      'hold',
      held,
      'countersign: held by rule `ask-first`: approval apr_1 is still pending; have it approved, then retry the identical call after approval',
    ],
  ])('%s: reason, exit code and one line of ASCII', async (_verdict, decision, reason) => {
    service.script = (_asked, socket) => reply(socket, 200, decision)
    const ended = await runHook({ args, env, event })
    expect(ended).toMatchObject({ code: 2, stderr: `${reason}\n` })
    expect(ended.stdout).toMatch(/^[\x20-\x7e]+\n$/)
    expect(JSON.parse(ended.stdout)).toEqual(deny(reason))
  })

  test('without --dialect the client is known by its event', async () => {
    service.script = (_asked, socket) => reply(socket, 200, denied)
    const ended = await runHook({ args: ['pre'], env, event })
    expect(ended.code).toBe(2)
    expect(JSON.parse(ended.stdout)).toEqual(deny('blocked by rule `no-egress`: the side effect is `egress`'))
  })
})

test.each([
  ['the client is unknown', ['pre'], { session_id: 's', tool_name: 'Bash', tool_input: {} }],
  ['the event cannot be read', ['pre'], 'nonsense'],
  ['the dialect is misspelt', ['pre', '--dialect', 'cluade'], claude],
  ['the command is misspelt', ['per'], claude],
])('the deny that every client understands, when %s', async (_when, args, event) => {
  service.script = (_asked, socket) => reply(socket, 200, denied)
  const ended = await runHook({ args, env, event })
  expect(ended.code).toBe(2)
  expect(ended.stderr.trim()).not.toBe('')
  expect(JSON.parse(ended.stdout)).toEqual(universal(ended.stderr.trim()))
})

test('rule names and explanations cannot break the line or send terminal codes', async () => {
  const rule_name = 'Zoë\n}\u001b[31m "quoted" \u2028 日本'
  service.script = (_asked, socket) => reply(socket, 200, { ...denied, rule_name, reason: rule_name })
  const ended = await runHook({ args: ['pre', '--dialect', 'claude'], env, event: claude })
  expect(ended.stdout).toMatch(/^[\x20-\x7e]+\n$/)
  const reason = 'blocked by rule `Zoë } [31m "quoted" 日本`: the side effect is `egress`'
  expect(JSON.parse(ended.stdout)).toEqual(inClaude(reason))
  expect(ended.stderr).toBe(`${reason}\n`)
})

test('names the organization of the session', async () => {
  service.script = (_asked, socket) => reply(socket, 200, allowed)
  await runHook({ args: ['pre'], env: { ...env, SERVICE_ORG_ID: 'org_7' }, event: claude })
  expect(JSON.parse(service.asked[0]?.body ?? '')).toMatchObject({ organization_id: 'org_7' })
})

test('--help tells how it is used, and nothing else', async () => {
  for (const option of ['--help', '-h']) {
    const ended = await runHook({ args: [option] })
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(ended.stdout).toMatch(
      /^usage: service_hook.py pre\|post\|end\|install\|doctor .*\n.* --version\n$/,
    )
  }
})

test('without a command it blocks: a client may have started it', async () => {
  expect(await runHook({})).toMatchObject({ code: 2, stderr: expect.stringContaining('usage: ') })
})
