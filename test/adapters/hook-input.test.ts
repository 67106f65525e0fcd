import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { hookFile, python, runHook } from './run-hook.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* Input that a client may send to the hook, and how the hook is started. */

const event = (input: object): object => ({
  session_id: 's',
  hook_event_name: 'PreToolUse',
  tool_name: 'Write',
  tool_input: input,
})
const args = ['pre', '--dialect', 'claude']

let service: ScriptedService
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  service = await scriptedService((_asked, socket) => reply(socket, 200, allowed))
})
beforeEach(() => {
  service.asked.length = 0
  env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' }
})
afterAll(() => service.close())

const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`
const text = (toolInput: string): string => `{"session_id":"s","tool_name":"Write","tool_input":${toolInput}}`

describe('an event that cannot be read is blocked in both modes', () => {
  test.each<[string, string | Buffer | object, string]>([
    ['nothing', '', 'not JSON'],
    ['white space', ' \n', 'not JSON'],
    ['half an object', '{"session_id": "s"', 'not JSON'],
    ['two objects', '{}{}', 'not JSON'],
    ['a list', '[]', 'not a JSON object'],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), 'not UTF-8'],
    ['UTF-16', Buffer.from(text('{}'), 'utf16le'), 'cannot be read'],
    ['one name twice', text('{"command":"ls","command":"curl x"}'), 'not JSON'],
    ['endless nesting', text(nested(100_000)), 'not JSON'],
    ['an endless number', text('9'.repeat(3_000_000)), 'not JSON'],
    ['a number without bounds', text('{"a": 1e999}'), 'a number beyond 9007199254740991'],
    ['a number that others round', text('{"a": [9007199254740993]}'), 'give it as text'],
    ['a fraction that is not a number', text('{"a": 9007199254740993.0}'), 'give it as text'],
    ['arguments that are a list', text('["ls"]'), 'not an object'],
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
    expect(await runHook({ args, env, event: event({ content }) })).toMatchObject({
      code: 0,
      stdout: '',
      stderr: '',
    })
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
  const child = spawn(python, ['-I', '-S', hookFile, ...line], { env: { ...env, SERVICE_FAIL_MODE: 'open' } })
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
  const elsewhere = {
    SERVICE_API_URL: 'http://127.0.0.1:1',
    SERVICE_API_KEY: 'csk_other',
    SERVICE_FAIL_MODE: 'open',
  }

  test('the settings file wins over the environment, which a project may have set', async () => {
    const config = file({
      api_url: service.url,
      api_key: 'csk_file',
      fail_mode: 'closed',
      organization_id: 'org_1',
    })
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
    ['that others can change', () => file({}, 0o666), 'can be changed by other users'],
    ['with a setting nobody knows', () => file({ failmode: 'open' }), 'unknown setting `failmode`'],
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
