import { createServer, type Socket } from 'node:net'
import { once } from 'node:events'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { selfSigned } from '../support/self-signed.ts'
import { runHook } from './run-hook.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* What goes wrong between hook and service, in both fail modes (specification, "What the caller sees"). */

const event = {
  session_id: 's',
  hook_event_name: 'PreToolUse',
  tool_name: 'Bash',
  tool_input: { command: 'echo secret-value' },
}
const args = ['pre', '--dialect', 'claude']
const ok = JSON.stringify(allowed)
const head = (length: number | string): string => `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`
const chunked = (body: string): string => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`

/** No answer: open mode lets the call through. */
const unreachable: Readonly<Record<string, (socket: Socket) => void>> = {
  'closed without a byte': (socket) => socket.end(),
  'reset without a byte': (socket) => socket.resetAndDestroy(),
  'no answer': () => {},
  'no end of the headers': (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Type: '),
  'no end of the body': (socket) => socket.write(head(900) + ok),
  'a byte a second': (socket) => trickle(socket, head(ok.length) + ok),
  '500': (socket) => reply(socket, 500, { error: { code: 'internal' } }),
  '502 from a proxy': (socket) => reply(socket, 502, '<html>bad gateway</html>'),
  '503 without end': (socket) => socket.write('HTTP/1.1 503 Unavailable\r\nContent-Length: 99\r\n\r\n'),
}

/** An answer that is none: blocked in both modes. */
const odd: Readonly<Record<string, (socket: Socket) => void>> = {
  '401': (socket) => reply(socket, 401, { error: { code: 'unauthenticated', message: 'no such key' } }),
  '403': (socket) => reply(socket, 403, { error: { code: 'missing_scope' } }),
  '404': (socket) => reply(socket, 404, 'not here'),
  '413 before all was read': (socket) => reply(socket, 413, ''),
  '429': (socket) => reply(socket, 429, {}),
  '201 with an allow': (socket) => reply(socket, 201, allowed),
  '204': (socket) => socket.end('HTTP/1.1 204 No Content\r\n\r\n'),
  '101': (socket) => socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n'),
  'no HTTP': (socket) => socket.end('SSH-2.0-OpenSSH_9.6\r\n'),
  'no HTTP, and no end': (socket) => socket.write('220 mail.example.com ESMTP\r\n'),
  'a status in words': (socket) => socket.end('HTTP/1.1 OK fine\r\n\r\n'),
  'a header without a colon': (socket) => socket.end(`HTTP/1.1 200 OK\r\nnonsense\r\n\r\n${ok}`),
  'endless headers': (socket) => endless(socket, 'HTTP/1.1 200 OK\r\n', 'X-Filler: yes\r\n'),
  'an endless body': (socket) => endless(socket, 'HTTP/1.1 200 OK\r\n\r\n', ' '.repeat(1000)),
  'a long body': (socket) => reply(socket, 200, JSON.stringify({ ...allowed, padding: 'x'.repeat(2 ** 21) })),
  'a length of 20 digits': (socket) => socket.end(head('9'.repeat(20)) + ok),
  'cut in the headers': (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Le'),
  'cut in the body': (socket) => socket.end(head(ok.length + 1) + ok),
  'reset in the body': (socket) =>
    socket.write(head(ok.length + 1) + ok, () => setTimeout(() => socket.resetAndDestroy(), 100)),
  'longer than its length': (socket) => socket.end(head(ok.length) + ok + ok),
  'two lengths': (socket) =>
    socket.end(`HTTP/1.1 200 OK\r\nContent-Length: ${ok.length}\r\nContent-Length: 5\r\n\r\n${ok}`),
  'a length below zero': (socket) => socket.end(head('-1') + ok),
  'length and chunks': (socket) =>
    socket.end(`HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`),
  'a chunk of no size': (socket) => socket.end(chunked('zz\r\n{}\r\n0\r\n\r\n')),
  'a chunk cut short': (socket) => socket.end(chunked(`ff\r\n${ok}`)),
  'packed with gzip': (socket) => reply(socket, 200, '\u001f\u008b\b', ['Content-Encoding: gzip']),
  empty: (socket) => reply(socket, 200, ''),
  'a page': (socket) => reply(socket, 200, '<html>please sign in to this wifi</html>'),
  'truncated JSON': (socket) => reply(socket, 200, ok.slice(0, -1)),
  'JSON and more': (socket) => reply(socket, 200, `${ok} {}`),
  'a list': (socket) => reply(socket, 200, [allowed]),
  'the word alone': (socket) => reply(socket, 200, '"allow"'),
  null: (socket) => reply(socket, 200, 'null'),
  'no verdict': (socket) => reply(socket, 200, { decision_id: 'dec_1' }),
  'another verdict': (socket) => reply(socket, 200, { ...allowed, decision: 'permit' }),
  'a verdict in capitals': (socket) => reply(socket, 200, { ...allowed, decision: 'ALLOW' }),
  'a verdict that is true': (socket) => reply(socket, 200, { ...allowed, decision: true }),
  'two verdicts': (socket) =>
    reply(socket, 200, '{"decision": "deny", "decision_id": "dec_1", "decision": "allow"}'),
  'allow without a decision': (socket) => reply(socket, 200, { decision: 'allow' }),
  'allow of decision 7': (socket) => reply(socket, 200, { decision: 'allow', decision_id: 7 }),
  'hold without an approval': (socket) => reply(socket, 200, { decision: 'require_approval' }),
  'hold with an approval that is a path': (socket) =>
    reply(socket, 200, { decision: 'require_approval', approval_id: '../../authorize' }),
  'not UTF-8': (socket) => socket.end(Buffer.concat([Buffer.from(head(2)), Buffer.from([0xff, 0xfe])])),
}

function trickle(socket: Socket, text: string): void {
  let at = 0
  const timer = setInterval(() => socket.write(text.charAt(at++)), 1000)
  socket.once('close', () => clearInterval(timer))
}

function endless(socket: Socket, first: string, more: string): void {
  socket.write(first)
  const push = (): void => {
    while (socket.writable && socket.write(more));
    socket.once('drain', push)
  }
  push()
}

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
// As of a client that waits nine seconds: the hook gives up a second before its own limit of 7.5.
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

describe.each(Object.entries(unreachable))('unreachable: %s', (_name, script) => {
  test('is blocked when closed, passes when open', async () => {
    service.script = (_asked, socket) => script(socket)
    const [closed, open] = await Promise.all([
      runHook({ args: hasty, env: settings('closed'), event }),
      runHook({ args: hasty, env: settings('open'), event }),
    ])
    blocked(closed)
    expect(closed.stderr).toContain('unreachable')
    passed(open)
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

test('an answer in chunks, after an interim one, counts', async () => {
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

test('an answer that got lost is asked for again', async () => {
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
    ['no such name', async () => 'https://service.invalid'],
    ['TLS to a port without', async () => service.url.replace('http', 'https')],
  ])('%s', async (_name, address) => {
    service.script = (_asked, socket) => reply(socket, 200, allowed)
    const SERVICE_API_URL = await address()
    blocked(await runHook({ args: hasty, env: { ...settings('closed'), SERVICE_API_URL }, event }))
    passed(await runHook({ args: hasty, env: { ...settings('open'), SERVICE_API_URL }, event }))
  })
})

describe('settings that no request can be made with are blocked in both modes', () => {
  test.each([
    ['no address', { SERVICE_API_URL: '' }, 'SERVICE_API_URL'],
    ['no key', { SERVICE_API_KEY: ' ' }, 'SERVICE_API_KEY'],
    ['a key of two lines', { SERVICE_API_KEY: 'csk_test\r\nX: y' }, 'SERVICE_API_KEY'],
    ['http to elsewhere', { SERVICE_API_URL: 'http://127.0.0.1.example.com' }, 'use https'],
    ['another scheme', { SERVICE_API_URL: 'ftp://127.0.0.1' }, 'https://'],
    ['a user in the address', { SERVICE_API_URL: 'http://127.0.0.1@example.com' }, 'without user'],
    ['a backslash', { SERVICE_API_URL: 'http://127.0.0.1\\@example.com' }, 'without user'],
    ['a port in words', { SERVICE_API_URL: 'http://127.0.0.1:x' }, 'no host'],
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

  test('a certificate that somebody vouches for', async () => {
    const ended = await runHook({ args, env: { ...settings('closed'), ...address(), ...trusted }, event })
    expect(ended).toMatchObject({ code: 0, stdout: '', stderr: '' })
  })
  test('one that nobody vouches for: nothing is sent', async () => {
    const ended = await runHook({ args, env: { ...settings('closed'), ...address() }, event })
    blocked(ended)
    expect(ended.stderr).toContain('CERTIFICATE_VERIFY_FAILED')
    expect(secure.asked).toEqual([])
  })
  test('one of another name: nothing is sent', async () => {
    const SERVICE_API_URL = secure.url.replace('localhost', '127.0.0.2')
    blocked(await runHook({ args, env: { ...settings('closed'), ...trusted, SERVICE_API_URL }, event }))
    expect(secure.asked).toEqual([])
  })
})
