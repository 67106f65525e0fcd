import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { endGateways, logFile, noted, odd, startGateway, textOf, type Gateway, type Wire } from './run-mcp.ts'
import { allowed, denied, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* Servers with unusual behaviour, and their requests to the client. */

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
const names = async (gateway: Gateway): Promise<string[]> =>
  (await gateway.tools()).map((tool: Wire) => tool.name)
const questions = () =>
  service.asked.filter(({ path }) => path === '/api/v1/authorize').map(({ body }) => JSON.parse(body))
const changes = (gateway: Gateway): number => gateway.told('notifications/tools/list_changed').length

describe('lists', () => {
  test('all pages are followed, and come as one list', async () => {
    const tools = Array.from({ length: 25 }, (_, index) => `tool-${index}`)
    const gateway = await start({ odd: odd({ tools, page: 2 }), other: odd({ tools: ['last'] }) })
    const listed = await gateway.request('tools/list')
    expect(listed.result.nextCursor).toBeUndefined()
    const expected = [...tools.map((name) => `odd__${name}`), 'other__last']
    expect(listed.result.tools.map((tool: Wire) => tool.name)).toEqual(expected)
    expect(await names(gateway)).toEqual(expected)
  })

  test('a cursor that leads back is followed once', async () => {
    const gateway = await start({ odd: odd({ tools: ['a', 'b'], circle: true }) })
    expect(await names(gateway)).toEqual(['odd__a', 'odd__b'])
  })

  test('colliding, long and odd names become distinct valid names that lead to the right tool', async () => {
    const long = 'x'.repeat(120)
    const tools = ['srv.tool', 'srv/tool', 'srv_tool', `${long}1`, `${long}2`, 'a b', '日本', 'a__b']
    const gateway = await start({ 'odd server': odd({ tools }) })
    const shown = await names(gateway)
    expect(new Set(shown).size).toBe(tools.length)
    for (const name of shown) {
      expect(name).toMatch(/^odd_server__[A-Za-z0-9_-]+$/)
      expect(`mcp__svc__${name}`.length).toBeLessThanOrEqual(64)
    }
    for (const [index, name] of shown.entries())
      expect(JSON.parse(textOf(await gateway.call(name))).name).toBe(tools[index])
    const asked = questions().map(({ tool_name }) => tool_name)
    expect(new Set(asked).size).toBe(tools.length)
    expect(asked[2]).toBe('mcp__odd_server__srv_tool')
    expect(asked[3]).toBe(`mcp__odd_server__${long}1`)
  })

  test('a list that the server does not know is empty', async () => {
    const gateway = await start({ odd: odd({ capabilities: { tools: {}, logging: {} } }) })
    expect((await gateway.request('prompts/list')).result).toEqual({ prompts: [] })
    expect((await gateway.request('resources/list')).result).toEqual({ resources: [] })
    expect((await gateway.request('resources/templates/list')).result).toEqual({ resourceTemplates: [] })
    expect((await gateway.request('logging/setLevel', { level: 'debug' })).result).toEqual({})
  })

  test('definitions are passed on completely, except tasks', async () => {
    const shown = {
      name: 'shown',
      title: 'Shown',
      description: 'd',
      inputSchema: { type: 'object', properties: { a: { type: 'number', minimum: 0.5 } } },
      outputSchema: { type: 'object' },
      annotations: { destructiveHint: false },
      icons: [{ src: 'data:,' }],
      _meta: { 'anthropic/alwaysLoad': true },
    }
    const task = { name: 'task', inputSchema: {}, execution: { taskSupport: 'required' } }
    const gateway = await start({
      odd: odd({ tools: [{ ...shown, execution: { taskSupport: 'optional' } }, task, { name: 7 }] }),
    })
    expect(await gateway.tools()).toEqual([{ ...shown, name: 'odd__shown' }])
  })

  test('a tool added later is announced', async () => {
    const gateway = await start({ odd: odd({ tools: ['grow'] }) })
    await gateway.tools()
    await gateway.call('odd__grow')
    await until('the change is told', () => changes(gateway) === 1)
    expect(await names(gateway)).toEqual(['odd__grow', 'odd__grown'])
    expect(textOf(await gateway.call('odd__grown'))).toContain('grown')
  })
})

test('a changed tool is refused from then on and announced; its listing stays the same', async () => {
  const gateway = await start({ odd: odd({ tools: ['mutate', 'restore', 'echo'] }) })
  const before = await gateway.tools()
  await gateway.call('odd__mutate')
  await until('it is told', () => gateway.told('notifications/message').length === 3)
  expect(gateway.told('notifications/message')[0].params).toMatchObject({ level: 'warning' })
  expect(await gateway.tools()).toEqual(before)
  service.asked.length = 0
  const refused = async (name: string) => {
    const result = await gateway.call(name)
    expect(result.isError).toBe(true)
    expect(textOf(result)).toContain('has changed its description or parameters')
  }
  await refused('odd__echo')
  await until('the service knows', () => service.asked.length === 1)
  expect(questions()[0]).toMatchObject({
    tool_name: 'mcp__odd__echo',
    annotations: { definitionChanged: true },
  })
  // Restoring the old definition does not allow the tool again.
  await refused('odd__restore')
  expect(changes(gateway)).toBe(0)
})

describe('what a server writes', () => {
  test('lines that are not messages, and unexpected answers, are dropped', async () => {
    const gateway = await start({ odd: odd({ tools: ['noise'] }) })
    await gateway.tools()
    expect(textOf(await gateway.call('odd__noise'))).toBe('after the noise')
    expect(gateway.lines.every((line) => line.startsWith('{"jsonrpc":"2.0"'))).toBe(true)
    expect(gateway.told('notifications/progress')).toEqual([])
  })

  test('8 MB on standard error block neither the gateway nor its client', async () => {
    const gateway = await start({ odd: odd({ tools: ['flood'] }) })
    // Behave like a client that does not read standard error.
    gateway.child.stderr?.pause()
    await gateway.tools()
    expect(textOf(await gateway.call('odd__flood'))).toBe('after the flood')
  })
})

describe('a server that ends', () => {
  test('its open calls get an answer, it is started again, and its tools come back', async () => {
    const gateway = await start({ odd: odd({ tools: ['crash', 'hang', 'echo'] }), other: odd() })
    expect(await names(gateway)).toHaveLength(4)
    const hanging = gateway.ask('tools/call', { name: 'odd__hang' })
    await until('it hangs', () => questions().length === 1)
    const crashed = await gateway.call('odd__crash')
    for (const result of [crashed, (await gateway.answer(hanging)).result]) {
      expect(result.isError).toBe(true)
      expect(textOf(result)).toContain('server `odd` ended while this call was open')
    }
    await until('both changes are told', () => changes(gateway) >= 1)
    let listed: string[] = []
    await until('its tools are back', async () => {
      listed = await names(gateway)
      return listed.length === 4
    })
    expect(textOf(await gateway.call('odd__echo'))).toContain('echo')
    expect(textOf(await gateway.call('other__echo'))).toContain('echo')
  })

  test('a call meanwhile is an error of the tool', async () => {
    const gateway = await start({ odd: odd({ tools: ['crash', 'echo'] }) })
    await gateway.tools()
    await gateway.call('odd__crash')
    const result = await gateway.call('odd__echo')
    expect(result).toMatchObject({ isError: true })
    expect(textOf(result)).toMatch(/server `odd` does not run at the moment|ended while this call was open/)
  })

  test.each<[string, object]>([
    ['ends at once', odd({ die: true })],
    ['speaks no version that the gateway knows', odd({ version: '2099-01-01' })],
    ['does not exist', { command: '/no/such/program' }],
    ['is not a program', { type: 'http', url: 'https://example.com' }],
    ['needs a variable that is not set', odd({}, { env: { TOKEN: '${NOT_SET_ANYWHERE}' } })],
    ['needs the key of the service', odd({}, { env: { TOKEN: '${SERVICE_API_KEY}' } })],
  ])('one that %s delays nobody', async (_name, entry) => {
    const gateway = await start({ bad: entry, good: odd() })
    expect(await names(gateway)).toEqual(['good__echo'])
    await until('it is said', () => gateway.stderr.includes('server `bad`'))
    expect(gateway.stderr).not.toContain('csk_test')
  })
})

test('a call that exceeds its server’s time limit is an error of the tool, and is cancelled', async () => {
  const log = logFile()
  const gateway = await start({ odd: odd({ tools: ['hang'], log }, { timeout: 300 }) })
  await gateway.tools()
  const result = await gateway.call('odd__hang')
  expect(result).toMatchObject({ isError: true })
  expect(textOf(result)).toContain('did not answer within 0.3 s')
  await until('the server is told', () =>
    noted(log).some(({ method }) => method === 'notifications/cancelled'),
  )
})

test('servers get a minimal environment and their own variables, but never the key', async () => {
  const gateway = await start(
    { odd: odd({ tools: ['env'] }, { env: { OWN: '${FROM_OUTSIDE} and ${ABSENT:-a default}' } }) },
    { env: { ...env(), ANTHROPIC_API_KEY: 'sk-other', FROM_OUTSIDE: 'given' } },
  )
  await gateway.tools()
  const given = JSON.parse(textOf(await gateway.call('odd__env')))
  expect(given).toMatchObject({ OWN: 'given and a default', PATH: process.env['PATH'] })
  expect(JSON.stringify(given)).not.toMatch(/csk_test|sk-other|SERVICE_/)
})

describe('what a server asks of the client', () => {
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

  test('before the client is ready, it waits', async () => {
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
  ])(
    '%s, which the client %j does not support, is refused: %j',
    async (method, capabilities, params, code) => {
      const log = logFile()
      const gateway = await start({ odd: odd({ tools: ['ask'], log }) }, { capabilities })
      await gateway.tools()
      const answer = JSON.parse(textOf(await gateway.call('odd__ask', { id: 's-1', method, params })))
      expect(answer).toMatchObject({ id: 's-1', error: { code } })
      expect(wishes(gateway, method)).toEqual([])
      const offered = noted(log).find((each) => each.method === 'initialize').params.capabilities
      expect(offered['tasks']).toBeUndefined()
    },
  )

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
})

test.each<[string, string, readonly string[]]>([
  ['no JSON', '{', []],
  ['no servers', '{}', []],
  ['an unknown option', '{"mcpServers": {}}', ['--verbose']],
  ['a gateway name that no tool may have', '{"mcpServers": {}}', ['--name', 'a__b']],
])('%s: it does not start, and says why', async (_name, config, args) => {
  const gateway = await startGateway({ config, args, bare: true })
  expect(await gateway.ended).toBe(2)
  expect(gateway.stderr).toMatch(/^countersign: .+\n$/)
})

test('the settings file of the hook is used, and wins over the environment', async () => {
  const file = join(temporaryFolder(), 'hook.json')
  writeFileSync(file, JSON.stringify({ api_url: service.url, api_key: 'csk_file' }), { mode: 0o600 })
  const gateway = await start(
    { odd: odd() },
    {
      args: ['--settings', file],
      env: { SERVICE_API_URL: 'http://127.0.0.1:1', SERVICE_API_KEY: 'csk_env' },
    },
  )
  await gateway.tools()
  expect((await gateway.call('odd__echo')).isError).toBeUndefined()
  expect(service.asked[0]?.headers['authorization']).toBe('Bearer csk_file')
})
