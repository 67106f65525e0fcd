import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { endGateways, logFile, noted, odd, startGateway, textOf, type Gateway, type Wire } from './run-mcp.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* Servers with unusual behaviour. */

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
