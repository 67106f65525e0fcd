import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { runHook, startHook } from './run-hook.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* `post` and `end` report to the service, and never disturb the client. */

const nowhere = 'http://127.0.0.1:1'
let service: ScriptedService
let env: NodeJS.ProcessEnv
let home: string
beforeAll(async () => {
  service = await scriptedService(() => {})
})
beforeEach(() => {
  service.asked.length = 0
  service.script = (_asked, socket) => reply(socket, 200, { ...allowed, ok: true })
  home = temporaryFolder()
  env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test', HOME: home }
})
afterAll(() => service.close())

const done = { code: 0, stdout: '' }

describe('post', () => {
  const claude = {
    session_id: 's',
    hook_event_name: 'PostToolUse',
    tool_name: 'Bash',
    tool_input: { command: 'cat secrets' },
    tool_use_id: 'toolu_1',
  }
  const seen = { session_id: 's', tool_name: 'Bash', tool_input: { command: 'cat secrets' } }

  test.each<[string, string, object, object]>([
    [
      'claude',
      'its end',
      { ...claude, tool_response: { stdout: 'OUTPUT' } },
      { tool_use_id: 'toolu_1', outcome: 'ok' },
    ],
    [
      'claude',
      'its failure',
      { ...claude, hook_event_name: 'PostToolUseFailure', error: 'OUTPUT' },
      { tool_use_id: 'toolu_1', outcome: 'error' },
    ],
    [
      'codex',
      'its end',
      { ...claude, turn_id: 't', tool_response: 'OUTPUT' },
      { tool_use_id: 'toolu_1', outcome: 'ok' },
    ],
    [
      'gemini',
      'its failure',
      {
        session_id: 's',
        hook_event_name: 'AfterTool',
        tool_name: 'run_shell_command',
        tool_input: { command: 'cat secrets' },
        tool_response: { llmContent: 'OUTPUT', error: { message: 'OUTPUT' } },
      },
      { outcome: 'error' },
    ],
    [
      'copilot',
      'its end',
      {
        sessionId: 's',
        toolName: 'bash',
        toolArgs: { command: 'cat secrets' },
        toolResult: { textResultForLlm: 'OUTPUT' },
      },
      { outcome: 'ok' },
    ],
    [
      'cursor',
      'its end',
      {
        conversation_id: 's',
        hook_event_name: 'postToolUse',
        tool_name: 'Shell',
        tool_input: { command: 'cat secrets' },
        tool_output: '"OUTPUT"',
      },
      { outcome: 'ok' },
    ],
  ])('%s: %s is reported, without its output', async (dialect, _what, event, more) => {
    expect(await runHook({ args: ['post', '--dialect', dialect], env, event })).toMatchObject({
      ...done,
      stderr: '',
    })
    expect(service.asked.map(({ path }) => path)).toEqual(['/api/v1/authorize/observe'])
    expect(service.asked[0]?.body).not.toContain('OUTPUT')
    expect(JSON.parse(service.asked[0]?.body ?? '')).toEqual({ ...seen, ...more })
  })

  test('arguments over the limit are reported by their size, so that a call without permission is visible', async () => {
    const event = { ...claude, tool_input: { command: 'x'.repeat(5_000_000) } }
    expect(await runHook({ args: ['post'], env, event })).toMatchObject(done)
    expect(JSON.parse(service.asked[0]?.body ?? '')).toMatchObject({
      tool_input: { too_long: expect.any(Number) },
    })
  })

  test.each<[string, string, object]>([
    ['a text that is not an object', JSON.stringify('{"a": 1, "a": 2}'), { input: '{"a": 1, "a": 2}' }],
    ['a number that others round', '{"a": 9007199254740993}', { a: 2 ** 53 }],
    ['a number beyond all numbers', '{"a": 1e999}', { unreadable: true }],
    ['two commands', '{"command": "ls", "cmd": "date"}', { command: 'ls', cmd: 'date' }],
  ])('a call that `pre` refuses for %s is reported if it ran', async (_name, input, tool_input) => {
    const event = `{"sessionId": "s", "toolName": "bash", "toolArgs": ${input}}`
    const ended = await runHook({ args: ['post', '--dialect', 'copilot'], env, event })
    expect(ended).toMatchObject({ ...done, stderr: '' })
    expect(JSON.parse(service.asked[0]?.body ?? '')).toMatchObject({ tool_name: 'Bash', tool_input })
  })

  test.each<[string, () => { event?: object; env?: NodeJS.ProcessEnv; args?: string[] }]>([
    ['an unreachable service', () => ({ env: { ...env, SERVICE_API_URL: nowhere } })],
    ['no settings', () => ({ env: {} })],
    ['an event that cannot be read', () => ({ event: [] })],
    ['a misspelt dialect', () => ({ args: ['post', '--dialect', 'cluade'] })],
    ['a service that answers nothing', () => ({ args: ['post', '--timeout', '3'] })],
  ])('%s is in nobody’s way', async (name, given) => {
    if (name.includes('nothing')) service.script = () => {}
    const ended = await runHook({ args: ['post'], env, event: claude, ...given() })
    expect(ended).toMatchObject(done)
    expect(ended.stderr).not.toContain('secrets')
  })
})

describe('end', () => {
  const event = { session_id: 'session/1', hook_event_name: 'SessionEnd', reason: 'other' }
  const args = ['end', '--dialect', 'claude']
  const left = (): string[] => {
    try {
      return readdirSync(join(home, '.countersign', 'ended-sessions'))
    } catch {
      return []
    }
  }
  const pre = (session_id: string): object => ({
    session_id,
    tool_name: 'Bash',
    tool_input: { command: 'ls' },
  })
  const ends = (): unknown[] =>
    service.asked
      .filter(({ path }) => path === '/api/v1/authorize/sessions/end')
      .map(({ body }) => (JSON.parse(body) as { session_id: string }).session_id)

  test('is reported, and nothing remains to be sent', async () => {
    expect(await runHook({ args, env, event })).toMatchObject({ ...done, stderr: '' })
    expect(ends()).toEqual(['session/1'])
    expect(left()).toEqual([])
  })

  /** A report that was interrupted is not sent again. */
  const stopped = async (): Promise<void> => {
    service.script = () => {}
    const { child, ended } = startHook({ args, env, event })
    await until('the service is told', () => ends().length === 1)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject(done)
    service.script = (_asked, socket) => reply(socket, 200, allowed)
    service.asked.length = 0
  }

  test.each([
    ['answers nothing', () => void (service.script = () => {})],
    ['is broken', () => void (service.script = (_asked, socket) => reply(socket, 500, {}))],
  ])(
    'a service that %s: the hook does not wait for it, and the report is sent once the service works again',
    async (_name, breaks) => {
      breaks()
      expect(await runHook({ args, env, event })).toMatchObject(done)
      expect(readFileSync(join(home, '.countersign', 'ended-sessions', left()[0] as string), 'utf8')).toBe(
        'session/1',
      )
      service.asked.length = 0
      service.script = (_asked, socket) => reply(socket, 200, allowed)
      await until('the end is told', () => left().length === 0)
      expect(ends()).toEqual(['session/1'])
    },
  )

  test('a service that is not there: the hook ends, and the report stays', async () => {
    expect(await runHook({ args, env: { ...env, SERVICE_API_URL: nowhere }, event })).toMatchObject(done)
    expect(left()).toHaveLength(1)
    // No report is left that would be sent again.
    rmSync(join(home, '.countersign'), { recursive: true })
  })

  test('the next call sends reports that could not be sent before', async () => {
    await stopped()
    expect(left()).toHaveLength(1)
    expect(await runHook({ args: ['pre'], env, event: pre('session-2') })).toMatchObject({ code: 0 })
    await until('the end is told', () => left().length === 0)
    expect(ends()).toEqual(['session/1'])
  })

  test('old reports do not end a session that continues', async () => {
    await stopped()
    expect(await runHook({ args: ['pre'], env, event: pre('session/1') })).toMatchObject({ code: 0 })
    expect(left()).toEqual([])
  })

  test('reports for another service, or older than a week, are not sent', async () => {
    await stopped()
    const folder = join(home, '.countersign', 'ended-sessions')
    mkdirSync(folder, { recursive: true })
    const old = new Date(Date.now() - 8 * 86_400_000)
    utimesSync(join(folder, left()[0] as string), old, old)
    writeFileSync(join(folder, '00000000-61'), 'a')
    await runHook({ args: ['flush'], env })
    expect(left()).toEqual(['00000000-61'])
    expect(service.asked).toEqual([])
  })
})
