import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, closeSync, openSync, writeFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { runHook, hookFile, python, startHook, type Ended } from './run-hook.ts'
import { allowed, denied, held, reply, type ScriptedService } from './scripted-service.ts'
import { useService } from './use-service.ts'

/* For every dialect: the exact answer to the client, and the exact request to the service. */

const command = 'curl https://example.com'
const common = { session_id: 'session-1', cwd: '/w', tool_input: { command } }
const claude = { ...common, hook_event_name: 'PreToolUse', tool_name: 'Bash', tool_use_id: 'toolu_1' }
const events: Readonly<Record<string, object>> = {
  claude,
  codex: { ...claude, turn_id: 'turn-1', model: 'gpt', tool_use_id: 'call_1' },
  gemini: { ...common, hook_event_name: 'BeforeTool', tool_name: 'run_shell_command' },
  copilot: { sessionId: 'session-1', timestamp: 1, cwd: '/w', toolName: 'bash', toolArgs: { command } },
  cursor: {
    ...{ conversation_id: 'session-1', generation_id: 'g', hook_event_name: 'preToolUse' },
    ...{ tool_name: 'Shell', tool_input: { command }, cwd: '/w', tool_use_id: 'tool_1' },
  },
  vscode: {
    ...{ sessionId: 'session-1', hookEventName: 'PreToolUse', tool_name: 'runTerminalCommand' },
    ...{ tool_input: { command }, cwd: '/w', tool_use_id: 'call_1' },
  },
  opencode: { ...common, hook_event_name: 'tool.execute.before', tool_name: 'bash', tool_use_id: 'call_1' },
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
useService((started) => (service = started))
beforeEach(() => {
  env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test', SERVICE_APPROVAL_WAIT: '0' }
})

const retry = 'have it approved, then retry the identical call after approval'

describe.each(Object.keys(events))('%s', (dialect) => {
  const args = ['pre', '--dialect', dialect]
  const event = events[dialect] as object
  const deny = denies[dialect] as (reason: string) => object

  test('allow: the client continues, and the service gets the question in its own format', async () => {
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

  const waits = `countersign: held by rule \`ask-first\`: approval apr_1 is still pending; ${retry}`
  test.each([
    ['deny', args, denied, 'blocked by rule `no-egress`: the side effect is `egress`'],
    // Without --dialect the client is known by its event.
    ['hold', ['pre'], held, waits],
  ])('%s, asked by %j: reason, exit code and one line of ASCII', async (_verdict, args, decision, reason) => {
    service.script = (_asked, socket) => reply(socket, 200, decision)
    const ended = await runHook({ args, env, event })
    expect(ended).toMatchObject({ code: 2, stderr: `${reason}\n` })
    expect(ended.stdout).toMatch(/^[\x20-\x7e]+\n$/)
    expect(JSON.parse(ended.stdout)).toEqual(deny(reason))
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

describe('input', () => {
  const event = (input: object): object => ({
    session_id: 's',
    hook_event_name: 'PreToolUse',
    tool_name: 'Write',
    tool_input: input,
  })
  const args = ['pre', '--dialect', 'claude']

  const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`
  const text = (toolInput: string): string =>
    `{"session_id":"s","tool_name":"Write","tool_input":${toolInput}}`

  describe('an event that cannot be read is blocked in both modes', () => {
    test.each<[string, string | Buffer | object, string]>([
      ['nothing', '', 'not JSON'],
      ['a list', '[]', 'not a JSON object'],
      ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 'not UTF-8'],
      ['UTF-16', Buffer.from(text('{}'), 'utf16le'), 'cannot be read'],
      ['one name twice', text('{"command":"ls","command":"curl x"}'), 'not JSON'],
      ['endless nesting', text(nested(100_000)), 'not JSON'],
      ['an endless number', text('9'.repeat(3_000_000)), 'not JSON'],
      ['a number without bounds', text('{"a": 1e999}'), 'a number beyond 9007199254740991'],
      ['a number that others round', text('{"a": [9007199254740993]}'), 'give it as text'],
      ['arguments that are half a text', text('"{\\"command\\""'), 'not a JSON object'],
      ['no session', { tool_name: 'Bash', tool_input: {} }, 'no session'],
      ['no tool', { session_id: 's', tool_input: {} }, 'no tool'],
      ['a session that is a number', { session_id: 7, tool_name: 'Bash' }, 'no session'],
    ])('%s', async (_name, given, says) => {
      for (const SERVICE_FAIL_MODE of ['closed', 'open']) {
        const ended = await runHook({ args, env: { ...env, SERVICE_FAIL_MODE }, event: given })
        expect(ended.code).toBe(2)
        expect(ended.stderr).toContain(says)
        expect(JSON.parse(ended.stdout)).toMatchObject({ hookSpecificOutput: { permissionDecision: 'deny' } })
      }
      expect(service.asked).toEqual([])
    })
  })

  describe('input arrives unchanged', () => {
    test.each<[string, string]>([
      ['3 MB', 'x'.repeat(3_000_000)],
      ['3 MB in other alphabets', '日本語'.repeat(333_333)],
      ['control characters and quotes', '\u0000\u001f"\\\n\r\t\u2028\u2029\ufeff'],
      ['half a surrogate pair', 'a\ud83d'],
      ['a pair', '😀'],
    ])('%s', async (_name, content) => {
      const ended = await runHook({ args, env, event: event({ content }) })
      expect(ended).toMatchObject({ code: 0, stdout: '', stderr: '' })
      const body = JSON.parse(service.asked[0]?.body ?? '') as { tool_input: { content: string } }
      expect(body.tool_input.content === content).toBe(true)
    })

    test('numbers', async () => {
      const given = text('{"a": -9007199254740991, "b": -0.1, "c": 1e-7, "d": true, "e": null}')
      await runHook({ args, env, event: given })
      expect(service.asked[0]?.body).toContain('{"a":-9007199254740991,"b":-0.1,"c":1e-07,"d":true,"e":null}')
    })

    test('after a byte order mark', async () => {
      expect(await runHook({ args, env, event: `\ufeff${text('{}')}` })).toMatchObject({ code: 0 })
    })
  })

  describe('input over the limit is blocked with its size, in both modes', () => {
    test.each([
      ['bytes to be sent', 4 * 1024 * 1024, /arguments are 4,194,\d{3} bytes long, over the 4,194,304/],
      ['bytes to be read', 50_000_000, /event is 50000\d{3} bytes long/],
    ])('%s', async (_name, length, says) => {
      for (const SERVICE_FAIL_MODE of ['closed', 'open']) {
        const content = 'x'.repeat(length)
        const ended = await runHook({ args, env: { ...env, SERVICE_FAIL_MODE }, event: event({ content }) })
        expect(ended.code).toBe(2)
        expect(ended.stderr).toMatch(says)
      }
      expect(service.asked).toEqual([])
    })
  })

  test('a client that never ends its event gets an answer within the time limit of the hook, in open mode too', async () => {
    const line = [...args, '--timeout', '9']
    const child = spawn(python, ['-I', '-S', hookFile, ...line], {
      env: { ...env, SERVICE_FAIL_MODE: 'open' },
    })
    child.stdin.on('error', () => {})
    child.stdin.write('{"session_id":')
    let stdout = ''
    child.stdout.on('data', (data: Buffer) => (stdout += data.toString()))
    const [code] = await once(child, 'close')
    child.stdin.destroy()
    expect(code).toBe(2)
    expect(JSON.parse(stdout)).toMatchObject({ hookSpecificOutput: { permissionDecision: 'deny' } })
  })

  describe('with its streams', () => {
    test.each([
      ['no standard input', '<&-', 2],
      ['standard input that cannot be read', '0>/dev/null', 2],
      ['no standard output', '>&-', 0],
      ['no standard error', '2>&-', 0],
    ])(
      '%s: an allowed call passes, an unreadable one is blocked even in open mode',
      async (_name, redirection, code) => {
        const command = ['sh', '-c', `exec "$@" ${redirection}`, 'sh', python, '-I', '-S', hookFile]
        const open = { ...env, SERVICE_FAIL_MODE: 'open' }
        expect(await runHook({ command, args, env: open, event: event({}) })).toMatchObject({ code })
      },
    )

    test.each([
      ['output that nobody reads', 1],
      ['errors that nobody reads', 2],
    ])('%s: a blocked call stays blocked', async (_name, descriptor) => {
      const full = openSync('/dev/full', 'w')
      const stdio: ('pipe' | number)[] = ['pipe', 'pipe', 'pipe']
      stdio[descriptor] = full
      const child = spawn(python, ['-I', '-S', hookFile, ...args], { env, stdio })
      child.stdin?.end('nonsense')
      const [code] = await once(child, 'close')
      closeSync(full)
      expect(code).toBe(2)
    })
  })

  describe('a broken Python', () => {
    // The command that `install` writes turns every failure into exit code 2 with a text. Only that blocks the call in
    // every client.
    const wrapped = (line: string): readonly string[] => [
      'sh',
      '-c',
      `${line}; rc=$?; case $rc in 0) exit 0;; 2) ;; *) echo "policy hook failed (rc=$rc); call refused" >&2;; esac; exit 2`,
    ]
    test.each<[string, () => string]>([
      ['no Python', () => 'no-such-python service_hook.py'],
      ['no file', () => `${python} -I -S /nonexistent/service_hook.py`],
      ['half a file', () => `${python} -I -S ${halfAFile()}`],
      ['killed', () => "sh -c 'kill -9 $$'"],
    ])('%s: blocked with a text', async (_name, line) => {
      const command = wrapped(line())
      const ended = await runHook({ command, env, event: event({}) })
      expect(ended.code).toBe(2)
      expect(ended.stderr.trim()).not.toBe('')
    })

    function halfAFile(): string {
      const path = join(temporaryFolder(), 'half.py')
      writeFileSync(path, 'def main(:\n')
      return path
    }
  })

  test('output printed by a library is not part of the answer', async () => {
    const path = join(temporaryFolder(), 'noisy.py')
    const lines = [
      'import runpy, sys, time',
      'real = time.monotonic',
      'def noisy():',
      '    print("noise", flush=True)',
      '    return real()',
      'time.monotonic = noisy',
      `sys.argv = ${JSON.stringify(['service_hook.py', ...args])}`,
      `runpy.run_path(${JSON.stringify(hookFile)}, run_name="__main__")`,
    ]
    writeFileSync(path, lines.join('\n'))
    const ended = await runHook({ command: [python, '-I', path], env, event: 'nonsense' })
    expect(ended.code).toBe(2)
    expect(JSON.parse(ended.stdout)).toMatchObject({ hookSpecificOutput: { permissionDecision: 'deny' } })
    expect(ended.stderr).toContain('noise')
  })

  describe('a settings file', () => {
    const file = (settings: object, mode = 0o600): string => {
      const path = join(temporaryFolder(), 'hook.json')
      writeFileSync(path, JSON.stringify(settings))
      chmodSync(path, mode)
      return path
    }
    const open = { SERVICE_FAIL_MODE: 'open' }
    const elsewhere = { SERVICE_API_URL: 'http://127.0.0.1:1', SERVICE_API_KEY: 'csk_other', ...open }

    test('the settings file wins over the environment, which a project may have set', async () => {
      const own = { api_url: service.url, api_key: 'csk_file', fail_mode: 'closed' }
      const config = file({ ...own, organization_id: 'org_1' })
      const ended = await runHook({ args: [...args, '--config', config], env: elsewhere, event: event({}) })
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      expect(service.asked[0]?.headers).toMatchObject({ authorization: 'Bearer csk_file' })
      expect(JSON.parse(service.asked[0]?.body ?? '')).toMatchObject({ organization_id: 'org_1' })
    })

    test.each([
      ['the fail mode', 'http://127.0.0.1:1', { SERVICE_FAIL_MODE: 'open' }, 'unreachable'],
      ['plain http', 'http://192.0.2.1', { SERVICE_ALLOW_HTTP: '1' }, 'plain http to another machine'],
    ])('only the file says whether %s lets calls pass', async (_name, api_url, loose, says) => {
      const config = file({ api_url, api_key: 'csk_file' })
      const ended = await runHook({ args: [...args, '--config', config], env: loose, event: event({}) })
      expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining(says) })
    })

    test('may name a separate file for the key', async () => {
      const key = join(temporaryFolder(), 'key')
      writeFileSync(key, 'csk_own\n', { mode: 0o600 })
      const config = file({ api_url: service.url, api_key_file: key }, 0o644)
      await runHook({ args: [...args, '--config', config], env: elsewhere, event: event({}) })
      expect(service.asked[0]?.headers).toMatchObject({ authorization: 'Bearer csk_own' })
    })

    test.each<[string, () => string, string]>([
      ['that is not there', () => '/nonexistent/hook.json', 'cannot be read'],
      [
        'with a key that others can read',
        () => file({ api_key: 'csk_x' }, 0o644),
        'can be read by other users',
      ],
      ['whose key file is missing', () => file({ api_key_file: '/nonexistent/key' }), 'cannot be read'],
    ])('%s blocks', async (_name, path, says) => {
      const ended = await runHook({ args: [...args, '--config', path()], env: elsewhere, event: event({}) })
      expect(ended.code).toBe(2)
      expect(ended.stderr).toContain(says)
      expect(service.asked).toEqual([])
    })
  })

  test('three at once', async () => {
    const ended = await Promise.all([1, 2, 3].map((n) => runHook({ args, env, event: event({ n }) })))
    expect(ended.map(({ code }) => code)).toEqual([0, 0, 0])
  })

  test('Codex types into running programs without asking, so those that wait for commands are not started', async () => {
    const given = { session_id: 's', turn_id: 't', tool_name: 'Bash', tool_input: { command: 'bash' } }
    const ended = await runHook({ args: ['pre', '--dialect', 'codex'], env, event: given })
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain('may run what Codex types into it later')
    expect(service.asked).toEqual([])
  })
})

describe('the organization of the key', () => {
  const own = 'org_00000000000000000000000001'
  const another = 'org_00000000000000000000000002'
  let home: string
  let ofTheKey: string
  beforeEach(() => {
    home = temporaryFolder()
    service.script = ({ path }, socket) =>
      reply(socket, 200, path === '/api/v1/me' ? { organization_id: ofTheKey } : allowed)
    const key = join(home, 'key')
    writeFileSync(key, 'csk_test', { mode: 0o600 })
    const settings = { api_url: service.url, api_key_file: key, organization_id: own }
    writeFileSync(join(home, 'hook.json'), JSON.stringify(settings), { mode: 0o600 })
  })

  const pre = (): Promise<Ended> =>
    runHook({
      args: ['pre', '--dialect', 'claude', '--config', join(home, 'hook.json')],
      env: { HOME: home },
      event: claude,
    })
  const asked = (): string[] => service.asked.map(({ path }) => path)
  const note = (): boolean => existsSync(join(home, '.countersign', 'key-checked'))

  test('the key of another organization is refused before the call is sent', async () => {
    ofTheKey = another
    const { code, stderr } = await pre()
    expect(code).toBe(2)
    expect(stderr).toContain(`is not of the organization \`${own}\``)
    expect(asked()).toEqual(['/api/v1/me'])
    expect(note()).toBe(false)
  })

  test('whose the key is, is asked once', async () => {
    ofTheKey = own
    expect((await pre()).code).toBe(0)
    expect(note()).toBe(true)
    expect((await pre()).code).toBe(0)
    expect(asked()).toEqual(['/api/v1/me', '/api/v1/authorize', '/api/v1/authorize'])
  })
})

describe('a client that is gone', () => {
  // A killed client sends no signal to its hooks. Codex, for example, leaves a hook that waits for an approver running.

  test.each([
    ['itself', undefined],
    ['behind a shell', ['sh', '-c', '"$@"; exit $?', 'sh', 'python3', '-I', '-S']],
  ])('a waiting hook %s whose client is gone withdraws its call and ends', async (_name, shell) => {
    service.script = ({ path }, socket) => {
      if (path === '/api/v1/authorize') reply(socket, 200, held)
      if (path.endsWith('/cancel')) reply(socket, 200, { status: 'cancelled' })
      // The approval is never decided.
    }
    const { child, ended } = startHook({
      args: [...(shell === undefined ? [] : [hookFile]), 'pre', '--dialect', 'codex'],
      ...(shell === undefined ? {} : { command: shell }),
      env: { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' },
      event: { session_id: 's', turn_id: 't', tool_name: 'Bash', tool_input: { command: 'ls' } },
    })
    await until('it waits', () => service.asked.some(({ path }) => path.includes('wait=')))
    child.stdout?.destroy()
    expect((await ended).code).toBe(2)
    expect(service.asked.map(({ path }) => path)).toContain('/api/v1/authorize/approvals/apr_1/cancel')
  })
})
