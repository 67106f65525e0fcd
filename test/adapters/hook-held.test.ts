import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { Socket } from 'node:net'
import { until } from '../stack/until.ts'
import { answerInTurn, poll, revoked, status, type Answer } from './held-call.ts'
import { runHook, startHook } from './run-hook.ts'
import { allowed, denied, held, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/*
 * A held call waits for its approver for a shorter time than the client would wait. The call runs only if the service
 * allows it.
 */

const event = {
  session_id: 's',
  hook_event_name: 'PreToolUse',
  tool_name: 'Bash',
  tool_input: { command: 'git push' },
  tool_use_id: 'toolu_1',
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

const answers = (decisions: readonly Answer[], polls: readonly Answer[]): void =>
  answerInTurn(service, decisions, polls)

const settings = (mode = 'closed', wait = '60'): NodeJS.ProcessEnv => ({
  SERVICE_API_URL: service.url,
  SERVICE_API_KEY: 'csk_test',
  SERVICE_FAIL_MODE: mode,
  SERVICE_APPROVAL_WAIT: wait,
})
const asked = (): string[] => service.asked.map(({ method, path }) => `${method} ${path.split('?')[0]}`)
const ask = 'POST /api/v1/authorize'
const look = `GET ${poll}`
const retry = 'have it approved, then retry the identical call after approval'

test('approved in time: the hook asks again, and only then the call runs', async () => {
  answers([held, allowed], [status('pending'), status('approved')])
  expect(await runHook({ args, env: settings(), event })).toMatchObject({ code: 0, stdout: '', stderr: '' })
  expect(asked()).toEqual([ask, look, look, ask])
  expect(service.asked[1]?.path).toBe(`${poll}?wait=30`)
  expect(service.asked[0]?.body).toBe(service.asked[3]?.body)
})

test('a deny saved meanwhile wins', async () => {
  answers([held, denied], [status('approved')])
  const ended = await runHook({ args, env: settings('open'), event })
  expect(ended).toMatchObject({
    code: 2,
    stderr: 'blocked by rule `no-egress`: the side effect is `egress`\n',
  })
})

test('held anew, it waits for the new approval', async () => {
  answers([held, { ...held, approval_id: 'apr_2' }, allowed], [status('approved')])
  expect(await runHook({ args, env: settings(), event })).toMatchObject({ code: 0 })
  expect(asked()).toEqual([ask, look, ask, look.replace('apr_1', 'apr_2'), ask])
})

test('an approval that allows nothing is not asked about forever', async () => {
  answers([held], [status('approved')])
  const ended = await runHook({ args, env: settings('open'), event })
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
    const ended = await runHook({ args, env: settings(mode), event })
    expect(ended).toMatchObject({ code: 2, stderr: `countersign: ${reason}\n` })
  }
})

test('a revoked session: the model is told to make no more calls', async () => {
  answers([held], [revoked])
  const ended = await runHook({ args, env: settings('open'), event })
  expect(ended.code).toBe(2)
  expect(ended.stderr).toContain('was cancelled, because this session was revoked: it can make no more calls')
  expect(asked()).toEqual([ask, look])
})

test.each<[string, Answer]>([
  ['404', (socket) => reply(socket, 404, { error: { code: 'not_found', message: 'no approval `apr_1`' } })],
  ['a page', (socket) => reply(socket, 200, '<html>')],
  ['a list', (socket) => reply(socket, 200, [])],
])('a poll that answers %s blocks', async (_name, answer) => {
  answers([held, allowed], [answer])
  expect(await runHook({ args, env: settings('open'), event })).toMatchObject({ code: 2 })
  expect(asked()).toEqual([ask, look])
})

test('after an outage the service still has the held call', async () => {
  const broken = (socket: Socket): void => void socket.destroy()
  const starting = (socket: Socket): void => reply(socket, 503, {})
  answers([held, allowed], [broken, starting, status('approved')])
  expect(await runHook({ args, env: settings(), event })).toMatchObject({ code: 0, stdout: '' })
})

test('a held call stays held when the service disappears, in open mode too', async () => {
  answers([held, (socket) => socket.destroy()], [status('approved')])
  const ended = await runHook({ args, env: settings('open'), event })
  expect(ended.code).toBe(2)
  expect(ended.stderr).toContain('approval apr_1 is approved; the service is unreachable')
})

test('the wait is over: blocked with the approval and the next step', async () => {
  answers([held], [status('pending')])
  const ended = await runHook({ args, env: settings('closed', '2'), event })
  expect(ended).toMatchObject({
    code: 2,
    stderr: `countersign: held by rule \`ask-first\`: approval apr_1 is still pending; ${retry}\n`,
  })
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
    const ended = await runHook({ args: [...args, '--timeout', '9'], env: settings('open', '600'), event })
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain(says)
  })
})

describe('a client that gives the call up', () => {
  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    '%s while held: blocked, and withdrawn',
    async (signal) => {
      answers([held], [() => {}])
      const { child, ended } = startHook({ args, env: settings('open'), event })
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
    const { child, ended } = startHook({ args, env: settings('open'), event })
    await until('the hook asks', () => asked().includes(ask))
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 2 })
    expect(asked().at(-1)).toBe(`POST ${poll}/cancel`)
  })

  test.each(['SIGTERM', 'SIGINT'] as const)('%s before there is an answer: blocked', async (signal) => {
    answers([() => {}], [])
    const { child, ended } = startHook({ args, env: settings('open'), event })
    await until('the hook asks', () => asked().includes(ask))
    child.kill(signal)
    expect(await ended).toMatchObject({ code: 2, signal: null })
  })
})
