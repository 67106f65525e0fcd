import { createServer } from 'node:net'
import { once } from 'node:events'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { selfSigned } from '../support/self-signed.ts'
import { runHook } from './run-hook.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'
import { chunked, odd, ok, unreachable } from './service-faults.ts'

/* Faults between the hook and the service, in both fail modes. */

const event = {
  session_id: 's',
  hook_event_name: 'PreToolUse',
  tool_name: 'Bash',
  tool_input: { command: 'echo secret-value' },
}
const args = ['pre', '--dialect', 'claude']
let service: ScriptedService
beforeAll(async () => {
  service = await scriptedService(() => {})
})
beforeEach(() => {
  service.asked.length = 0
})
afterAll(() => service.close())

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
  try {
    service.script = (_asked, socket) => reply(socket, 307, '', [`Location: ${other.url}/api/v1/authorize`])
    blocked(await runHook({ args, env: settings('open'), event }))
    expect(other.asked).toEqual([])
  } finally {
    await other.close()
  }
})

test('a chunked answer after an interim one counts', async () => {
  const [one, two] = [ok.slice(0, 10), ok.slice(10)]
  const chunks = [one, two].map((part) => `${part.length.toString(16)};x=y\r\n${part}\r\n`).join('')
  service.script = (_asked, socket) =>
    socket.end(`HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n${chunked(`${chunks}0\r\n\r\n`)}`)
  expect(await runHook({ args, env: settings('closed'), event })).toMatchObject({
    code: 0,
    stdout: '',
    stderr: '',
  })
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
    service.script = (_asked, socket) => reply(socket, 200, allowed)
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
  beforeAll(async () => {
    secure = await scriptedService((_asked, socket) => reply(socket, 200, allowed), true)
  })
  beforeEach(() => {
    secure.asked.length = 0
  })
  afterAll(() => secure.close())

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
