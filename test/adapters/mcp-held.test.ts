import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import type { Socket } from 'node:net'
import { until } from '../stack/until.ts'
import { answerInTurn, poll, revoked, status, type Answer } from './held-call.ts'
import { endGateways, logFile, noted, odd, startGateway, textOf, type Gateway, type Wire } from './run-mcp.ts'
import { allowed, denied, held, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* Held calls wait with progress, end in time, and are withdrawn when the client gives up. */

let service: ScriptedService
beforeAll(async () => {
  service = await scriptedService(() => {})
})
beforeEach(() => {
  service.asked.length = 0
})
afterEach(endGateways)
afterAll(() => service.close())

const answers = (decisions: readonly Answer[], polls: readonly Answer[]): void =>
  answerInTurn(service, decisions, polls)
/** A poll that the service answers only when the test decides. */
function later(): { answer: Answer; say(body: object): void } {
  let waiting: Socket | undefined
  return {
    answer: (socket: Socket) => (waiting = socket),
    say: (body) => {
      if (waiting !== undefined) reply(waiting, 200, body)
    },
  }
}

async function start(servers: Record<string, unknown>, more: NodeJS.ProcessEnv = {}): Promise<Gateway> {
  const env = {
    SERVICE_API_URL: service.url,
    SERVICE_API_KEY: 'csk_test',
    SERVICE_APPROVAL_WAIT: '60',
    ...more,
  }
  const gateway = await startGateway({ servers, env })
  await gateway.tools()
  return gateway
}
const asked = (): string[] => service.asked.map(({ method, path }) => `${method} ${path.split('?')[0]}`)
const [ask, look, withdraw] = ['POST /api/v1/authorize', `GET ${poll}`, `POST ${poll}/cancel`]
const report = 'POST /api/v1/authorize/observe'
const progress = (gateway: Gateway): Wire[] =>
  gateway.told('notifications/progress').map(({ params }) => params)

test('approved in time: the gateway asks again, and only then the call runs', async () => {
  const gateway = await start({ odd: odd() })
  answers([held, allowed], [status('pending'), status('approved')])
  expect(textOf(await gateway.call('odd__echo', { a: 1 }))).toContain('echo')
  await until('it is reported', () => asked().length === 5)
  expect(asked()).toEqual([ask, look, look, ask, report])
  expect(service.asked[1]?.path).toBe(`${poll}?wait=30`)
  expect(service.asked[0]?.body).toBe(service.asked[3]?.body)
  expect(progress(gateway)).toEqual([])
})

test.each<[string, readonly Answer[], Answer, string]>([
  ['rejected', [held], status('rejected', 'not today'), 'approval apr_1 was rejected: not today'],
  ['withdrawn', [held], status('cancelled'), 'approval apr_1 was cancelled'],
  ['a revoked session', [held], revoked, 'was cancelled, because this session was revoked: it can make'],
  ['expired', [held], status('expired'), 'approval apr_1 has expired'],
  ['an unknown status', [held], status('maybe'), 'has a status that cannot be read'],
  ['denied meanwhile', [held, denied], status('approved'), 'blocked by rule `no-egress`'],
  [
    'a service that has disappeared',
    [held, (s) => s.destroy()],
    status('approved'),
    'approved; the service is unreachable',
  ],
  ['a poll that is refused', [held], (s: Socket) => reply(s, 404, {}), 'the service answers 404'],
])(
  '%s: an error of the tool in both modes, and the server gets no call',
  async (_name, decisions, then, says) => {
    for (const SERVICE_FAIL_MODE of ['closed', 'open']) {
      const log = logFile()
      const gateway = await start({ odd: odd({ log }) }, { SERVICE_FAIL_MODE })
      answers(decisions, [then])
      const result = await gateway.call('odd__echo')
      expect(result.isError).toBe(true)
      expect(textOf(result)).toContain(says)
      expect(noted(log).map(({ method }) => method)).not.toContain('tools/call')
    }
  },
)

test('not decided in time: the approval’s id and the next step', async () => {
  const gateway = await start({ odd: odd() }, { SERVICE_APPROVAL_WAIT: '2' })
  answers([held], [status('pending')])
  expect(await gateway.call('odd__echo')).toEqual({
    content: [
      {
        type: 'text',
        text:
          'countersign: held by rule `ask-first`: approval apr_1 is still pending; have it approved, then call again ' +
          'with the same arguments',
      },
    ],
    isError: true,
  })
  expect(asked().filter((each) => each === look).length).toBeLessThanOrEqual(3)
})

describe('progress', () => {
  test.each([0, 'token', ''])(
    'with the token %j rises from the wait into the server’s own',
    async (token) => {
      const gateway = await start({ odd: odd({ tools: ['progress'] }) })
      const decided = later()
      answers([held, allowed], [decided.answer])
      const params = { name: 'odd__progress', arguments: {}, _meta: { progressToken: token } }
      const id = gateway.ask('tools/call', params)
      await until('it says what it waits for', () => progress(gateway).length === 1 && asked().includes(look))
      expect(progress(gateway)).toEqual([
        { progressToken: token, progress: 0.001, message: 'waiting for approval apr_1' },
      ])
      decided.say(status('approved'))
      // The server got a progress token that the gateway made.
      const { result } = await gateway.answer(id)
      expect(textOf(result)).toMatch(/^token \d+$/)
      await gateway.request('ping')
      const told = progress(gateway)
      expect(told.map((each) => each.progress)).toEqual([0.001, 1, 2, 3])
      expect(told.every((each) => each.progressToken === token)).toBe(true)
      expect(told.at(-1).total).toBe(3)
      // No progress comes after the answer, although the server sends more.
      const last = gateway.messages.findIndex((each) => each.id === id)
      expect(gateway.messages.slice(last).map(({ method }) => method)).not.toContain('notifications/progress')
    },
  )

  test('rises even if the server’s own does not', async () => {
    const gateway = await start({ odd: odd({ tools: ['progress'] }) })
    answers([held, allowed], [status('approved')])
    await gateway.call('odd__progress', { steps: [0, 0, 5, 3, 5, 6, 'x', null] }, { progressToken: 1 })
    const values = progress(gateway).map((each) => each.progress)
    expect(values).toHaveLength(7)
    for (const [index, value] of values.entries())
      if (index > 0) expect(value).toBeGreaterThan(values[index - 1])
  })

  test.each([undefined, null, 1.5, true])('with no token (%j) there is none', async (progressToken) => {
    const gateway = await start({ odd: odd({ tools: ['progress'] }) })
    answers([held, allowed], [status('approved')])
    const result = await gateway.call('odd__progress', {}, { progressToken })
    expect(textOf(result)).toBe('token null')
    expect(progress(gateway)).toEqual([])
  })

  test('is repeated during a long wait', async () => {
    const gateway = await start({ odd: odd() })
    answers([held, allowed], [later().answer])
    gateway.ask('tools/call', { name: 'odd__echo', _meta: { progressToken: 't' } })
    await until('it has come twice', () => progress(gateway).length === 2)
    expect(progress(gateway)[1].progress).toBe(0.002)
  })
})

describe('a call that is given up', () => {
  const cancel = (gateway: Gateway, requestId: unknown): void =>
    gateway.send({ method: 'notifications/cancelled', params: { requestId, reason: 'no longer needed' } })
  const answered = (gateway: Gateway, id: unknown): boolean => gateway.messages.some((each) => each.id === id)

  test('while it is held: withdrawn at once, and never answered', async () => {
    const log = logFile()
    const gateway = await start({ odd: odd({ log }) })
    answers([held, allowed], [later().answer])
    const id = gateway.ask('tools/call', { name: 'odd__echo', _meta: { progressToken: 1 } }, 'held')
    await until('it waits', () => asked().includes(look))
    cancel(gateway, 'held')
    await until('it is withdrawn', () => asked().includes(withdraw))
    expect(asked()).toEqual([ask, look, withdraw])
    await gateway.request('ping')
    expect(answered(gateway, id)).toBe(false)
    expect(noted(log).map(({ method }) => method)).not.toContain('tools/call')
  })

  test('while the service decides: the resulting approval is withdrawn', async () => {
    const gateway = await start({ odd: odd() })
    const decided = later()
    answers([decided.answer], [status('pending')])
    gateway.ask('tools/call', { name: 'odd__echo' }, 0)
    await until('it is asked about', () => asked().includes(ask))
    cancel(gateway, 0)
    await gateway.request('ping')
    decided.say(held)
    await until('it is withdrawn', () => asked().includes(withdraw))
    expect(asked()).toEqual([ask, withdraw])
    expect(gateway.messages.some((each) => each.id === 0 && each.result?.content !== undefined)).toBe(false)
  })

  test('while the server works: the server is told by its own id, and its later answer is recorded', async () => {
    const log = logFile()
    const gateway = await start({ odd: odd({ tools: ['slow'], log }) })
    answers([allowed], [])
    gateway.ask('tools/call', { name: 'odd__slow', arguments: { seconds: 1 } }, 'slow')
    const got = (method: string): Wire => noted(log).find((each) => each.method === method)
    await until('it works', () => got('tools/call') !== undefined)
    cancel(gateway, 'slow')
    await until('it is told', () => got('notifications/cancelled') !== undefined)
    expect(got('notifications/cancelled').params).toEqual({
      requestId: got('tools/call').id,
      reason: 'no longer needed',
    })
    await until('the outcome is recorded', () => asked().includes(report))
    expect(answered(gateway, 'slow')).toBe(false)
  })

  test('reading a resource can be given up too', async () => {
    const log = logFile()
    const gateway = await start({ odd: odd({ resources: ['a://1'], log }) })
    answers([held], [later().answer])
    gateway.ask('resources/read', { uri: 'a://1' }, 'read')
    await until('it waits', () => asked().includes(look))
    cancel(gateway, 'read')
    await until('it is withdrawn', () => asked().includes(withdraw))
    expect(answered(gateway, 'read')).toBe(false)
  })

  test.each<[string, unknown]>([
    ['one that has been answered', 'done'],
    ['one that never existed', 'nobody'],
    ['a number in place of a text', 1],
    ['null', null],
    ['an object', { a: 1 }],
  ])('cancelling %s is ignored', async (_name, id) => {
    const log = logFile()
    const gateway = await start({ odd: odd({ log }) })
    answers([allowed], [])
    await gateway.request('tools/call', { name: 'odd__echo' }, 'done')
    const before = gateway.messages.length
    cancel(gateway, id)
    await gateway.request('tools/call', { name: 'odd__echo' }, 'next')
    expect(gateway.messages).toHaveLength(before + 1)
    expect(noted(log).map(({ method }) => method)).not.toContain('notifications/cancelled')
  })
})
