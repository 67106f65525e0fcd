import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { afterEach, describe, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { answerInTurn, poll, revoked, status, type Answer } from './held-call.ts'
import { logFile, noted, odd, textOf, type Gateway, type Wire } from './run-mcp.ts'
import { allowed, denied, held, reply, scriptedService, type ScriptedService } from './scripted-service.ts'
import { unreachable, odd as oddAnswers } from './service-faults.ts'
import { sharedGateway, useGateways, type Gateways } from './use-service.ts'

let service: Gateways['service']
let begin: Gateways['start']
useGateways((started) => ({ service, start: begin } = started))

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
  const gateway = await begin(servers, { env: { SERVICE_APPROVAL_WAIT: '60', ...more } })
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

describe('a call that is not approved', () => {
  const log = logFile()
  const gateways: Gateway[] = []
  for (const SERVICE_FAIL_MODE of ['closed', 'open'])
    sharedGateway(
      () => start({ odd: odd({ log }) }, { SERVICE_FAIL_MODE }),
      (each) => gateways.push(each),
    )

  test.each<[string, readonly Answer[], Answer, string]>([
    ['rejected', [held], status('rejected', 'not today'), 'approval apr_1 was rejected: not today'],
    ['withdrawn', [held], status('cancelled'), 'approval apr_1 was cancelled'],
    ['a revoked session', [held], revoked, 'was cancelled, because this session was revoked: it can make'],
    ['expired', [held], status('expired'), 'approval apr_1 has expired'],
    ['an unknown status', [held], status('maybe'), 'has a status that cannot be read'],
    ['denied meanwhile', [held, denied], status('approved'), 'blocked by rule `no-egress`'],
    ['a service that is gone', [held, (s) => s.destroy()], status('approved'), 'is unreachable'],
    ['a poll that is refused', [held], (s: Socket) => reply(s, 404, {}), 'the service answers 404'],
  ])(
    '%s: an error of the tool in both modes, and the server gets no call',
    async (_name, decisions, then, says) => {
      for (const gateway of gateways) {
        answers(decisions, [then])
        const result = await gateway.call('odd__echo')
        expect(result.isError).toBe(true)
        expect(textOf(result)).toContain(says)
        expect(noted(log).map(({ method }) => method)).not.toContain('tools/call')
      }
    },
  )
})

test('not decided in time: the approval’s id and the next step', async () => {
  const gateway = await start({ odd: odd() }, { SERVICE_APPROVAL_WAIT: '2' })
  answers([held], [status('pending')])
  const text =
    'countersign: held by rule `ask-first`: approval apr_1 is still pending; have it approved, then call again ' +
    'with the same arguments'
  expect(await gateway.call('odd__echo')).toEqual({ content: [{ type: 'text', text }], isError: true })
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

  test('there is none without a token', async () => {
    const gateway = await start({ odd: odd({ tools: ['progress'] }) })
    for (const progressToken of [undefined, null, 1.5, true]) {
      answers([held, allowed], [status('approved')])
      const result = await gateway.call('odd__progress', {}, { progressToken })
      expect([progressToken, textOf(result)]).toEqual([progressToken, 'token null'])
      expect(progress(gateway)).toEqual([])
    }
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
    const told = { requestId: got('tools/call').id, reason: 'no longer needed' }
    expect(got('notifications/cancelled').params).toEqual(told)
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

  const log = logFile()
  let idle: Gateway
  sharedGateway(
    () => start({ odd: odd({ log }) }),
    (gateway) => (idle = gateway),
  )

  test.each<[string, unknown]>([
    ['one that has been answered', 'done'],
    ['one that never existed', 'nobody'],
    ['a number in place of a text', 1],
    ['null', null],
    ['an object', { a: 1 }],
  ])('cancelling %s is ignored', async (_name, id) => {
    if (!answered(idle, 'done')) await idle.request('tools/call', { name: 'odd__echo' }, 'done')
    const before = idle.messages.length
    cancel(idle, id)
    await idle.call('odd__echo')
    expect(idle.messages).toHaveLength(before + 1)
    expect(noted(log).map(({ method }) => method)).not.toContain('notifications/cancelled')
  })
})

/** Whether the process runs. A zombie does not count as running. */
function runs(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** Starts a gateway with a server that has its own helper processes. Returns the pids of all these processes. */
async function family(said: object = {}): Promise<{ gateway: Gateway; pids: number[] }> {
  const gateway = await start({ odd: odd({ tools: ['family'], ...said }) })
  const pids = JSON.parse(textOf(await gateway.call('odd__family'))) as number[]
  expect(pids.map(runs)).toEqual([true, true, true])
  return { gateway, pids }
}

test.each<[string, (gateway: Gateway) => void]>([
  ['the end of its input', ({ child }) => child.stdin?.end()],
  ['SIGINT', ({ child }) => child.kill('SIGINT')],
  ['SIGTERM', ({ child }) => child.kill('SIGTERM')],
  ['SIGHUP', ({ child }) => child.kill('SIGHUP')],
])('%s: no process is left', async (_name, end) => {
  const { gateway, pids } = await family()
  end(gateway)
  expect(await gateway.ended).toBe(0)
  expect(pids.map(runs)).toEqual([false, false, false])
  // A result that is reported beside it can arrive later.
  expect(service.asked.map(({ path }) => path)).toContain('/api/v1/authorize/sessions/end')
})

test('a server that ignores everything is killed after two requests to end', async () => {
  const log = logFile()
  const { gateway, pids } = await family({ stubborn: true, log })
  const began = performance.now()
  gateway.child.kill('SIGINT')
  expect(await gateway.ended).toBe(0)
  expect(pids.map(runs)).toEqual([false, false, false])
  expect(noted(log)).toContainEqual({ input: 'ended' })
  expect(performance.now() - began).toBeGreaterThan(3900)
})

describe('killed itself', () => {
  test.each<[string, object]>([
    ['its servers end', {}],
    ['stubborn servers end too', { stubborn: true }],
  ])('%s', async (_name, said) => {
    const { gateway, pids } = await family(said)
    gateway.child.kill('SIGKILL')
    expect(await gateway.ended).toBe('SIGKILL')
    await until('they are gone', () => !pids.some(runs))
  })
})

test('a server that dies takes its helpers with it', async () => {
  const gateway = await start({ odd: odd({ tools: ['family', 'crash'] }) })
  const pids = JSON.parse(textOf(await gateway.call('odd__family'))) as number[]
  await gateway.call('odd__crash')
  await until('they are gone', () => !pids.some(runs))
})

test('ends if its parent dies, even if its input stays open elsewhere', async () => {
  const gateway = await begin({ odd: odd({ tools: ['family'] }) }, { shell: true })
  await gateway.tools()
  const pids = JSON.parse(textOf(await gateway.call('odd__family'))) as number[]
  const own = Number(/^pid (\d+)$/m.exec(gateway.stderr)?.[1])
  gateway.child.kill('SIGKILL')
  await until('all are gone', () => ![own, ...pids].some(runs))
})

test('a call that waits for an approver is withdrawn', async () => {
  service.script = (asked, socket) => {
    if (asked.path === '/api/v1/authorize') reply(socket, 200, held)
    else if (asked.method !== 'GET') reply(socket, 200, { ok: true })
  }
  const gateway = await start({ odd: odd() })
  gateway.ask('tools/call', { name: 'odd__echo', _meta: { sessionId: 'the-client-s-own' } })
  await until('it waits', () => service.asked.some(({ method }) => method === 'GET'))
  await gateway.close()
  expect(service.asked.map(({ path }) => path)).toContain('/api/v1/authorize/approvals/apr_1/cancel')
  // The client's session continues, so the gateway must not report its end.
  expect(service.asked.map(({ path }) => path)).not.toContain('/api/v1/authorize/sessions/end')
})

test('a client that stops reading does not prevent its end', async () => {
  const gateway = await start({ odd: odd({ tools: ['big'] }) })
  gateway.child.stdout?.pause()
  gateway.ask('tools/call', { name: 'odd__big' })
  await until('it has been asked about', () => service.asked.length > 0)
  gateway.child.kill('SIGTERM')
  const exited = new Promise((resolve) => gateway.child.once('exit', resolve))
  expect(await exited).toBe(0)
  gateway.child.stdout?.resume()
})

describe('faults between the gateway and the service', () => {
  const faults = { ...unreachable, ...oddAnswers }

  const others: ScriptedService[] = []
  afterEach(() => Promise.all(others.splice(0).map((each) => each.close())))
  const another = async (script: ScriptedService['script']) => {
    const service = await scriptedService(script)
    others.push(service)
    return service
  }

  test('every fault at once: closed mode blocks all, open mode passes calls without an answer, and no value is logged', async () => {
    service.script = ({ path, body }, socket) => {
      const name = Object.keys(faults).find((each) => body.includes(JSON.stringify(`fault: ${each}`)))
      if (path !== '/api/v1/authorize') reply(socket, 200, { ok: true })
      else if (name === undefined) reply(socket, 200, allowed)
      else faults[name]?.(socket)
    }
    const names = Object.keys(faults)
    const both = ['closed', 'open'].map(async (mode) => {
      const gateway = await start({ odd: odd() }, { SERVICE_FAIL_MODE: mode })
      const results = await Promise.all(
        names.map((name) => gateway.call('odd__echo', { fault: `fault: ${name}`, secret: 'secret-value' })),
      )
      const ran = names.filter((_name, index) => results[index].isError !== true)
      expect({ mode, ran }).toEqual({ mode, ran: mode === 'open' ? Object.keys(unreachable) : [] })
      for (const [index, result] of results.entries()) {
        if (result.isError !== true) continue
        expect(textOf(result)).toMatch(/^countersign: /)
        expect(textOf(result)).not.toMatch(/secret-value|csk_test/)
        if (names[index] !== undefined && names[index] in unreachable)
          expect(textOf(result)).toContain('unreachable')
      }
      expect(gateway.stderr).not.toMatch(/secret-value|csk_test/)
      if (mode === 'open') expect(gateway.stderr).toContain('fail mode is open: not checked')
      // The gateway continues normally.
      expect((await gateway.call('odd__echo')).isError).toBeUndefined()
    })
    await Promise.all(both)
  })

  describe('settings that allow no question block in both modes, and the tools are still listed', () => {
    test.each<[string, NodeJS.ProcessEnv]>([
      ['no address', { SERVICE_API_URL: '' }],
      ['no key', { SERVICE_API_KEY: '' }],
      ['plain http to another machine', { SERVICE_API_URL: 'http://192.0.2.1' }],
      ['not a web address', { SERVICE_API_URL: 'ftp://127.0.0.1' }],
    ])('%s', async (_name, more) => {
      const gateway = await start({ odd: odd() }, { SERVICE_FAIL_MODE: 'open', ...more })
      const result = await gateway.call('odd__echo')
      expect(result.isError).toBe(true)
      expect(textOf(result)).toMatch(/^countersign: SERVICE_API_/)
    })
  })

  test('after a lost answer the gateway asks again with the same words', async () => {
    const other = await another((_asked, socket, nth) =>
      nth === 1 ? socket.end() : reply(socket, 200, allowed),
    )
    const gateway = await start({ odd: odd() }, { SERVICE_API_URL: other.url })
    expect((await gateway.call('odd__echo')).isError).toBeUndefined()
    await until('it is reported', () => other.asked.length === 3)
    const questions = other.asked.filter(({ path }) => path === '/api/v1/authorize')
    expect(new Set(questions.map(({ body }) => body)).size).toBe(1)
    expect(questions).toHaveLength(2)
  })

  test('a redirect is not followed: the key goes to nobody else', async () => {
    const other = await another((_asked, socket) => reply(socket, 200, allowed))
    service.script = (_asked, socket) => reply(socket, 307, '', [`Location: ${other.url}/api/v1/authorize`])
    const gateway = await start({ odd: odd() }, { SERVICE_FAIL_MODE: 'open' })
    expect((await gateway.call('odd__echo')).isError).toBe(true)
    expect(other.asked).toEqual([])
  })
})
