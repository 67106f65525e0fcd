import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { selfSigned } from '../support/self-signed.ts'
import { answerInTurn, poll, revoked, status, type Answer } from './held-call.ts'
import { runHook, startHook } from './run-hook.ts'
import { allowed, reply, scriptedService, denied, held, type ScriptedService } from './scripted-service.ts'
import { chunked, odd, ok, unreachable } from './service-faults.ts'
import { useService } from './use-service.ts'

const event = {
  session_id: 's',
  hook_event_name: 'PreToolUse',
  tool_name: 'Bash',
  tool_input: { command: 'echo secret-value' },
}
const args = ['pre', '--dialect', 'claude']
let service: ScriptedService
useService((started) => (service = started))

const settings = (mode: string): NodeJS.ProcessEnv => ({
  SERVICE_API_URL: service.url,
  SERVICE_API_KEY: 'csk_test',
  SERVICE_FAIL_MODE: mode,
})
// Arguments for a client that waits nine seconds: the hook gives up a second before the hook's own limit of 7.5.
const hasty = [...args, '--timeout', '9']

const blocked = (ended: Awaited<ReturnType<typeof runHook>>): void => {
  expect(ended.code).toBe(2)
  expect(ended.stderr.trim()).not.toBe('')
  expect(JSON.parse(ended.stdout)).toMatchObject({
    hookSpecificOutput: { permissionDecision: 'deny', permissionDecisionReason: ended.stderr.trim() },
  })
  expect(ended.stdout + ended.stderr).not.toContain('secret-value')
  expect(ended.stdout + ended.stderr).not.toContain('csk_test')
}

const passed = (ended: Awaited<ReturnType<typeof runHook>>): void => {
  expect(ended).toMatchObject({ code: 0, stdout: '' })
  expect(ended.stderr).toContain('fail mode is open: not checked')
  expect(ended.stderr).not.toContain('secret-value')
}

describe('unreachable', () => {
  const services: ScriptedService[] = []
  const ended = new Map<string, Awaited<ReturnType<typeof runHook>>[]>()

  // All run at the same time, because each of them takes all the time that the hook has.
  beforeAll(async () => {
    const runs = Object.entries(unreachable).map(async ([name, script]) => {
      const other = await scriptedService((_asked, socket) => script(socket))
      services.push(other)
      const run = (mode: string) =>
        runHook({ args: hasty, env: { ...settings(mode), SERVICE_API_URL: other.url }, event })
      ended.set(name, await Promise.all([run('closed'), run('open')]))
      expect(other.asked.length).toBeGreaterThanOrEqual(2)
    })
    await Promise.all(runs)
  })
  afterAll(() => Promise.all(services.map((each) => each.close())))

  test.each(Object.keys(unreachable))('%s: blocks in closed mode, passes in open mode', (name) => {
    const [closed, open] = ended.get(name) ?? []
    blocked(closed!)
    expect(closed!.stderr).toContain('unreachable')
    passed(open!)
  })
})

describe.each(Object.entries(odd))('an odd answer: %s', (_name, script) => {
  test('is blocked in both modes', async () => {
    service.script = (_asked, socket) => script(socket)
    const both = ['closed', 'open'].map((mode) => runHook({ args: hasty, env: settings(mode), event }))
    for (const ended of await Promise.all(both)) blocked(ended)
    expect(service.asked).toHaveLength(2)
  })
})

test('a redirect is not followed: the key goes to nobody else', async () => {
  const other = await scriptedService((_asked, socket) => reply(socket, 200, allowed))
  service.script = (_asked, socket) => reply(socket, 307, '', [`Location: ${other.url}/api/v1/authorize`])
  const ended = await runHook({ args, env: settings('open'), event })
  await other.close()
  blocked(ended)
  expect(other.asked).toEqual([])
})

test('a chunked answer after an interim one counts', async () => {
  const [one, two] = [ok.slice(0, 10), ok.slice(10)]
  const chunks = [one, two].map((part) => `${part.length.toString(16)};x=y\r\n${part}\r\n`).join('')
  service.script = (_asked, socket) =>
    socket.end(`HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n${chunked(`${chunks}0\r\n\r\n`)}`)
  const ended = await runHook({ args, env: settings('closed'), event })
  expect(ended).toMatchObject({ code: 0, stdout: '', stderr: '' })
})

test('after a lost answer the hook asks again', async () => {
  service.script = (_asked, socket, nth) => (nth === 1 ? socket.end() : reply(socket, 200, allowed))
  expect(await runHook({ args, env: settings('closed'), event })).toMatchObject({ code: 0 })
  expect(new Set(service.asked.map(({ body }) => body)).size).toBe(1)
})

describe('a service that is not there', () => {
  const refusing = async (): Promise<string> => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    server.close()
    await once(server, 'close')
    return `http://127.0.0.1:${port}`
  }
  test.each([
    ['refused', refusing],
    ['a host name that does not exist', async () => 'https://service.invalid'],
    ['TLS to a port without TLS', async () => service.url.replace('http', 'https')],
  ])('%s', async (_name, address) => {
    const SERVICE_API_URL = await address()
    blocked(await runHook({ args: hasty, env: { ...settings('closed'), SERVICE_API_URL }, event }))
    passed(await runHook({ args: hasty, env: { ...settings('open'), SERVICE_API_URL }, event }))
  })
})

describe('settings that allow no request are blocked in both modes', () => {
  test.each([
    ['no address', { SERVICE_API_URL: '' }, 'SERVICE_API_URL'],
    ['no key', { SERVICE_API_KEY: ' ' }, 'SERVICE_API_KEY'],
    ['a key of two lines', { SERVICE_API_KEY: 'csk_test\r\nX: y' }, 'SERVICE_API_KEY'],
    ['http to another machine', { SERVICE_API_URL: 'http://127.0.0.1.example.com' }, 'use https'],
    ['another scheme', { SERVICE_API_URL: 'ftp://127.0.0.1' }, 'https://'],
    ['a user in the address', { SERVICE_API_URL: 'http://127.0.0.1@example.com' }, 'without user'],
    ['a backslash', { SERVICE_API_URL: 'http://127.0.0.1\\@example.com' }, 'without user'],
    ['a port that is not a number', { SERVICE_API_URL: 'http://127.0.0.1:x' }, 'no host'],
  ])('%s', async (_name, wrong, says) => {
    for (const mode of ['closed', 'open']) {
      const ended = await runHook({ args, env: { ...settings(mode), ...wrong }, event })
      blocked(ended)
      expect(ended.stderr).toContain(says)
    }
    expect(service.asked).toEqual([])
  })
})

describe('TLS', () => {
  let secure: ScriptedService
  useService((started) => (secure = started), undefined, true)

  const address = (): NodeJS.ProcessEnv => ({ SERVICE_API_URL: secure.url })
  const trusted = { SSL_CERT_FILE: selfSigned.certFile }

  test('a trusted certificate', async () => {
    const ended = await runHook({ args, env: { ...settings('closed'), ...address(), ...trusted }, event })
    expect(ended).toMatchObject({ code: 0, stdout: '', stderr: '' })
  })
  test('an untrusted one: nothing is sent', async () => {
    const ended = await runHook({ args, env: { ...settings('closed'), ...address() }, event })
    blocked(ended)
    expect(ended.stderr).toContain('CERTIFICATE_VERIFY_FAILED')
    expect(secure.asked).toEqual([])
  })
  test('one with another name: nothing is sent', async () => {
    const SERVICE_API_URL = secure.url.replace('localhost', '127.0.0.2')
    blocked(await runHook({ args, env: { ...settings('closed'), ...trusted, SERVICE_API_URL }, event }))
    expect(secure.asked).toEqual([])
  })
})

describe('a held call', () => {
  const answers = (decisions: readonly Answer[], polls: readonly Answer[]): void =>
    answerInTurn(service, decisions, polls)

  const waiting = (mode = 'closed', wait = '60') => ({ ...settings(mode), SERVICE_APPROVAL_WAIT: wait })
  const asked = (): string[] => service.asked.map(({ method, path }) => `${method} ${path.split('?')[0]}`)
  const ask = 'POST /api/v1/authorize'
  const look = `GET ${poll}`
  const retry = 'have it approved, then retry the identical call after approval'

  test('approved in time: the hook asks again, and only then the call runs', async () => {
    answers([held, allowed], [status('pending'), status('approved')])
    expect(await runHook({ args, env: waiting(), event })).toMatchObject({ code: 0, stdout: '', stderr: '' })
    expect(asked()).toEqual([ask, look, look, ask])
    expect(service.asked[1]?.path).toBe(`${poll}?wait=30`)
    expect(service.asked[0]?.body).toBe(service.asked[3]?.body)
  })

  test('a deny saved meanwhile wins', async () => {
    answers([held, denied], [status('approved')])
    const ended = await runHook({ args, env: waiting('open'), event })
    const stderr = 'blocked by rule `no-egress`: the side effect is `egress`\n'
    expect(ended).toMatchObject({ code: 2, stderr })
  })

  test('held anew, it waits for the new approval', async () => {
    answers([held, { ...held, approval_id: 'apr_2' }, allowed], [status('approved')])
    expect(await runHook({ args, env: waiting(), event })).toMatchObject({ code: 0 })
    expect(asked()).toEqual([ask, look, ask, look.replace('apr_1', 'apr_2'), ask])
  })

  test('an approval that allows nothing is not asked about forever', async () => {
    answers([held], [status('approved')])
    const ended = await runHook({ args, env: waiting('open'), event })
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain('approval apr_1 is approved, but does not allow the call')
    expect(asked()).toEqual([ask, look, ask])
  })

  test.each([
    ['rejected', 'no pushes today', 'held by rule `ask-first`: approval apr_1 was rejected: no pushes today'],
    ['cancelled', null, 'held by rule `ask-first`: approval apr_1 was cancelled'],
    ['expired', null, 'held by rule `ask-first`: approval apr_1 has expired'],
    ['maybe', null, 'held by rule `ask-first`: approval apr_1 has a status that cannot be read'],
  ])('%s: blocked in both modes', async (word, comment, reason) => {
    for (const mode of ['closed', 'open']) {
      answers([held], [status(word, comment)])
      const ended = await runHook({ args, env: waiting(mode), event })
      expect(ended).toMatchObject({ code: 2, stderr: `countersign: ${reason}\n` })
    }
  })

  test('a revoked session: the model is told to make no more calls', async () => {
    answers([held], [revoked])
    const ended = await runHook({ args, env: waiting('open'), event })
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain(
      'was cancelled, because this session was revoked: it can make no more calls',
    )
    expect(asked()).toEqual([ask, look])
  })

  test.each<[string, Answer]>([
    ['404', (socket) => reply(socket, 404, { error: { code: 'not_found', message: 'no approval `apr_1`' } })],
    ['a page', (socket) => reply(socket, 200, '<html>')],
    ['a list', (socket) => reply(socket, 200, [])],
  ])('a poll that answers %s blocks', async (_name, answer) => {
    answers([held, allowed], [answer])
    expect(await runHook({ args, env: waiting('open'), event })).toMatchObject({ code: 2 })
    expect(asked()).toEqual([ask, look])
  })

  test('after an outage the service still has the held call', async () => {
    const broken = (socket: Socket): void => void socket.destroy()
    const starting = (socket: Socket): void => reply(socket, 503, {})
    answers([held, allowed], [broken, starting, status('approved')])
    expect(await runHook({ args, env: waiting(), event })).toMatchObject({ code: 0, stdout: '' })
  })

  test('a held call stays held when the service disappears, in open mode too', async () => {
    answers([held, (socket) => socket.destroy()], [status('approved')])
    const ended = await runHook({ args, env: waiting('open'), event })
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain('approval apr_1 is approved; the service is unreachable')
  })

  test('the wait is over: blocked with the approval and the next step', async () => {
    answers([held], [status('pending')])
    const ended = await runHook({ args, env: waiting('closed', '2'), event })
    const stderr = `countersign: held by rule \`ask-first\`: approval apr_1 is still pending; ${retry}\n`
    expect(ended).toMatchObject({ code: 2, stderr })
    // After an immediate answer, the hook does not ask again immediately.
    expect(asked().filter((each) => each === look).length).toBeLessThanOrEqual(3)
  })

  describe('the hook answers within its time limit, whatever waits', () => {
    test.each<[string, Answer, string]>([
      ['no approver', status('pending'), retry],
      ['a poll without an answer', () => {}, retry],
      ['a poll without an end', (socket) => socket.write('HTTP/1.1 200 OK\r\n'), retry],
    ])('%s', async (_name, answer, says) => {
      answers([held], [answer])
      const ended = await runHook({ args: [...args, '--timeout', '9'], env: waiting('open', '600'), event })
      expect(ended.code).toBe(2)
      expect(ended.stderr).toContain(says)
    })
  })

  describe('a client that gives the call up', () => {
    test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
      '%s while held: blocked, and withdrawn',
      async (signal) => {
        answers([held], [() => {}])
        const { child, ended } = startHook({ args, env: waiting('open'), event })
        await until('the hook polls', () => asked().includes(look))
        child.kill(signal)
        const { code, stdout, stderr } = await ended
        expect(code).toBe(2)
        expect(stderr).toContain('approval apr_1 was given up with the call')
        expect(JSON.parse(stdout)).toMatchObject({ hookSpecificOutput: { permissionDecision: 'deny' } })
        expect(asked().at(-1)).toBe(`POST ${poll}/cancel`)
      },
    )

    test('SIGTERM while the answer is on its way: the held call is still withdrawn', async () => {
      answers([(socket) => setTimeout(() => reply(socket, 200, held), 700)], [() => {}])
      const { child, ended } = startHook({ args, env: waiting('open'), event })
      await until('the hook asks', () => asked().includes(ask))
      child.kill('SIGTERM')
      expect(await ended).toMatchObject({ code: 2 })
      expect(asked().at(-1)).toBe(`POST ${poll}/cancel`)
    })

    test.each(['SIGTERM', 'SIGINT'] as const)('%s before there is an answer: blocked', async (signal) => {
      answers([() => {}], [])
      const { child, ended } = startHook({ args, env: waiting('open'), event })
      await until('the hook asks', () => asked().includes(ask))
      child.kill(signal)
      expect(await ended).toMatchObject({ code: 2, signal: null })
    })
  })
})

describe('reports', () => {
  const nowhere = 'http://127.0.0.1:1'
  let env: NodeJS.ProcessEnv
  let home: string
  beforeEach(() => {
    service.script = (_asked, socket) => reply(socket, 200, { ...allowed, ok: true })
    home = temporaryFolder()
    env = { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test', HOME: home }
  })
  const done = { code: 0, stdout: '' }

  describe('post', () => {
    const tool_input = { command: 'cat secrets' }
    const seen = { session_id: 's', tool_name: 'Bash', tool_input }
    const use = { tool_use_id: 'toolu_1' }
    const claude = { ...seen, ...use, hook_event_name: 'PostToolUse' }
    const failed = { hook_event_name: 'PostToolUseFailure' }
    const ofGemini = {
      ...{ session_id: 's', hook_event_name: 'AfterTool', tool_name: 'run_shell_command', tool_input },
      tool_response: { llmContent: 'OUTPUT', error: { message: 'OUTPUT' } },
    }
    const ofCopilot = {
      ...{ sessionId: 's', toolName: 'bash', toolArgs: tool_input },
      toolResult: { textResultForLlm: 'OUTPUT' },
    }
    const ofCursor = {
      ...{ conversation_id: 's', hook_event_name: 'postToolUse', tool_name: 'Shell', tool_input },
      tool_output: '"OUTPUT"',
    }

    test.each<[string, string, object, object]>([
      ['claude', 'its end', { ...claude, tool_response: { stdout: 'OUTPUT' } }, { ...use, outcome: 'ok' }],
      ['claude', 'its failure', { ...claude, ...failed, error: 'OUTPUT' }, { ...use, outcome: 'error' }],
      ['codex', 'its end', { ...claude, turn_id: 't', tool_response: 'OUTPUT' }, { ...use, outcome: 'ok' }],
      ['gemini', 'its failure', ofGemini, { outcome: 'error' }],
      ['copilot', 'its end', ofCopilot, { outcome: 'ok' }],
      ['cursor', 'its end', ofCursor, { outcome: 'ok' }],
    ])('%s: %s is reported, without its output', async (dialect, _what, event, more) => {
      const ended = await runHook({ args: ['post', '--dialect', dialect], env, event })
      expect(ended).toMatchObject({ ...done, stderr: '' })
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
    const pre = (session_id: string) => ({ session_id, tool_name: 'Bash', tool_input: { command: 'ls' } })
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
})
