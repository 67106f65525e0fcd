import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { endGateways, logFile, noted, odd, startGateway, textOf, type Gateway } from './run-mcp.ts'
import { allowed, denied, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* Requests of servers to the client, through the gateway. */

let service: ScriptedService
beforeAll(async () => {
  service = await scriptedService(() => {})
})
beforeEach(() => {
  service.asked.length = 0
  service.script = (asked, socket) =>
    reply(socket, 200, asked.path.endsWith('/authorize') ? allowed : { ok: true })
})
afterEach(endGateways)
afterAll(() => service.close())

const env = (): NodeJS.ProcessEnv => ({ SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' })
const start = (servers: Record<string, unknown>, more: object = {}): Promise<Gateway> =>
  startGateway({ servers, env: env(), ...more })
const questions = () =>
  service.asked.filter(({ path }) => path === '/api/v1/authorize').map(({ body }) => JSON.parse(body))
const wishes = (gateway: Gateway, method: string) => gateway.told(method)

test('two servers both request roots/list with id 0: each gets its own answer', async () => {
  const [one, two] = [logFile(), logFile()]
  const gateway = await start(
    { one: odd({ roots: true, log: one }), two: odd({ roots: true, log: two }) },
    { capabilities: { roots: { listChanged: true } } },
  )
  await until('both have asked', () => wishes(gateway, 'roots/list').length === 2)
  const ids = wishes(gateway, 'roots/list').map(({ id }) => id)
  expect(new Set(ids).size).toBe(2)
  for (const id of ids)
    gateway.send({ id, result: { roots: [{ uri: `file:///${String(id).split(':')[0]}` }] } })
  for (const [log, uri] of [
    [one, 'file:///one'],
    [two, 'file:///two'],
  ] as const) {
    await until('the answer is there', () => noted(log).some(({ result }) => result !== undefined))
    expect(noted(log).find(({ result }) => result)).toEqual({
      jsonrpc: '2.0',
      id: 0,
      result: { roots: [{ uri }] },
    })
  }
  gateway.send({ method: 'notifications/roots/list_changed' })
  for (const log of [one, two])
    await until('both are told', () =>
      noted(log).some(({ method }) => method === 'notifications/roots/list_changed'),
    )
})

test('a request waits until the client is ready', async () => {
  const gateway = await start({ odd: odd({ roots: true }) }, { bare: true })
  await gateway.request('initialize', { capabilities: { roots: {} } }, 'greeting')
  await gateway.tools()
  expect(wishes(gateway, 'roots/list')).toEqual([])
  gateway.send({ method: 'notifications/initialized' })
  await until('it comes', () => wishes(gateway, 'roots/list').length === 1)
})

test.each<[string, object, object, number]>([
  ['roots/list', {}, {}, -32601],
  ['sampling/createMessage', { roots: {} }, {}, -32601],
  ['elicitation/create', { sampling: {} }, {}, -32601],
  ['elicitation/create', { elicitation: { form: {} } }, { mode: 'url' }, -32601],
  ['tasks/list', { tasks: {} }, {}, -32601],
])('%s, which the client %j does not support, is refused: %j', async (method, capabilities, params, code) => {
  const log = logFile()
  const gateway = await start({ odd: odd({ tools: ['ask'], log }) }, { capabilities })
  await gateway.tools()
  const answer = JSON.parse(textOf(await gateway.call('odd__ask', { id: 's-1', method, params })))
  expect(answer).toMatchObject({ id: 's-1', error: { code } })
  expect(wishes(gateway, method)).toEqual([])
  const offered = noted(log).find((each) => each.method === 'initialize').params.capabilities
  expect(offered['tasks']).toBeUndefined()
})

test.each<[string, object, object]>([
  ['id 7', { id: 7 }, { id: 7 }],
  ['id "7"', { id: '7' }, { id: '7' }],
])('elicitation names the server, and its answer goes back to %s', async (_name, id, back) => {
  const gateway = await start({ odd: odd({ tools: ['ask'] }) }, { capabilities: { elicitation: {} } })
  await gateway.tools()
  const params = { message: 'Your colour?', requestedSchema: { type: 'object', properties: {} } }
  const call = gateway.ask('tools/call', {
    name: 'odd__ask',
    arguments: { ...id, method: 'elicitation/create', params },
  })
  await until('it asks', () => wishes(gateway, 'elicitation/create').length === 1)
  const [asked] = wishes(gateway, 'elicitation/create')
  expect(asked.params).toEqual({ ...params, message: '[odd] Your colour?' })
  gateway.send({ id: asked.id, result: { action: 'cancel' } })
  expect(JSON.parse(textOf((await gateway.answer(call)).result))).toMatchObject({
    ...back,
    result: { action: 'cancel' },
  })
})

test('a sampling request is asked about like a call', async () => {
  const gateway = await start({ odd: odd({ tools: ['ask'] }) }, { capabilities: { sampling: {} } })
  await gateway.tools()
  const params = { messages: [], maxTokens: 5 }
  const ask = { id: 1, method: 'sampling/createMessage', params }
  const call = gateway.ask('tools/call', { name: 'odd__ask', arguments: ask })
  await until('it asks', () => wishes(gateway, 'sampling/createMessage').length === 1)
  expect(questions().at(-1)).toMatchObject({
    tool_name: 'mcp__odd__sampling_create_message',
    tool_input: params,
  })
  gateway.send({ id: wishes(gateway, 'sampling/createMessage')[0].id, result: { model: 'm' } })
  expect(textOf((await gateway.answer(call)).result)).toContain('"model": "m"')
  service.script = (asked, socket) =>
    reply(socket, 200, asked.body.includes('"mcp__odd__sampling') ? denied : allowed)
  const answer = JSON.parse(textOf(await gateway.call('odd__ask', ask)))
  expect(answer.error.message).toContain('no-egress')
  expect(wishes(gateway, 'sampling/createMessage')).toHaveLength(1)
})

test('a request that the server cancels, or a dead server made, is cancelled at the client', async () => {
  const gateway = await start(
    { odd: odd({ tools: ['take_back', 'ask', 'crash'] }) },
    { capabilities: { roots: {} } },
  )
  await gateway.tools()
  await gateway.call('odd__take_back')
  gateway.ask('tools/call', { name: 'odd__ask', arguments: { id: 1, method: 'roots/list' } })
  await until('it asks again', () => wishes(gateway, 'roots/list').length === 2)
  await gateway.call('odd__crash')
  await until('both are taken back', () => gateway.told('notifications/cancelled').length === 2)
  expect(gateway.told('notifications/cancelled').map(({ params }) => params.requestId)).toEqual(
    wishes(gateway, 'roots/list').map(({ id }) => id),
  )
})
