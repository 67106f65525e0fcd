import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { endGateways, logFile, noted, odd, startGateway, textOf, type Gateway } from './run-mcp.ts'
import { until } from '../stack/until.ts'
import { allowed, denied, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* The messages of the gateway to its client, line by line. */

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
const start = (servers: Record<string, unknown> = { odd: odd() }, more: object = {}): Promise<Gateway> =>
  startGateway({ servers, env: env(), ...more })
const questions = () =>
  service.asked.filter(({ path }) => path === '/api/v1/authorize').map(({ body }) => JSON.parse(body))

describe('the greeting', () => {
  test('`server/discover` is answered as unknown, without starting a server', async () => {
    const log = logFile()
    const gateway = await start({ odd: odd({ log }) }, { bare: true })
    const answer = await gateway.request('server/discover', { _meta: {} }, 'probe')
    expect(answer).toEqual({
      jsonrpc: '2.0',
      id: 'probe',
      error: { code: -32601, message: 'Method not found' },
    })
    await gateway.close()
    expect(noted(log)).toEqual([])
  })

  test.each([
    ['2025-11-25', '2025-11-25'],
    ['2025-06-18', '2025-06-18'],
    ['2025-03-26', '2025-03-26'],
    ['2024-11-05', '2024-11-05'],
    ['2026-07-28', '2025-11-25'],
    ['1999-01-01', '2025-11-25'],
  ])('version %s is answered with %s', async (asked, told) => {
    const log = logFile()
    const gateway = await start({ odd: odd({ log }) }, { bare: true })
    const { result } = await gateway.initialize({}, asked)
    expect(result).toMatchObject({
      protocolVersion: told,
      capabilities: {
        tools: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
        prompts: { listChanged: true },
        logging: {},
        completions: {},
      },
    })
    expect(result.capabilities.tasks).toBeUndefined()
    await gateway.tools()
    expect(noted(log)).toContainEqual(
      expect.objectContaining({
        method: 'initialize',
        params: expect.objectContaining({ protocolVersion: told }),
      }),
    )
  })

  test('it does not wait for servers; their tools appear once they are ready', async () => {
    const gateway = await start({ late: odd({ slow: 10 }), quick: odd() })
    expect(gateway.messages).toHaveLength(1)
    const names = async () => (await gateway.tools()).map(({ name }) => name)
    expect(await names()).toEqual(['quick__echo'])
    const changed = () => gateway.told('notifications/tools/list_changed').length
    await until('the late server is told of', () => changed() === 1)
    expect(await names()).toEqual(['late__echo', 'quick__echo'])
  })

  test('before it, only ping', async () => {
    const gateway = await start({}, { bare: true })
    expect(await gateway.request('ping')).toMatchObject({ result: {} })
    expect(await gateway.request('tools/list')).toMatchObject({ error: { code: -32600 } })
    await gateway.initialize()
    expect(await gateway.request('initialize', {})).toMatchObject({ error: { code: -32600 } })
  })
})

describe('ids', () => {
  test.each([0, 'x', '0', -3, 1.5])('id %j comes back unchanged', async (id) => {
    const gateway = await start({}, { bare: true })
    await gateway.request('initialize', { protocolVersion: '2025-11-25', capabilities: {} }, 'greeting')
    expect(await gateway.request('tools/list', {}, id)).toEqual({ jsonrpc: '2.0', id, result: { tools: [] } })
  })

  test('0 and "0" are two calls', async () => {
    const gateway = await start()
    await gateway.tools()
    const call = (said: string) => ({ name: 'odd__echo', arguments: { said } })
    gateway.ask('tools/call', call('number'), 7)
    gateway.ask('tools/call', call('text'), '7')
    expect(textOf((await gateway.answer(7)).result)).toContain('number')
    expect(textOf((await gateway.answer('7')).result)).toContain('text')
  })

  test('an id that is still open is refused a second time', async () => {
    const gateway = await start({ odd: odd({ tools: ['hang'] }) })
    await gateway.tools()
    gateway.ask('tools/call', { name: 'odd__hang' }, 5)
    gateway.ask('tools/call', { name: 'odd__hang' }, 5)
    expect(await gateway.answer(5)).toMatchObject({ error: { code: -32600 } })
  })
})

test.each<[string, string | Buffer, number]>([
  ['no JSON', '{"jsonrpc"', -32700],
  ['no UTF-8', Buffer.from([0xff, 0xfe]), -32700],
  ['a name twice', '{"jsonrpc":"2.0","id":1,"method":"ping","id":2}', -32700],
  ['a name twice inside', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":1,"a":2}}', -32700],
  ['NaN', '{"jsonrpc":"2.0","id":1,"method":"ping","params":NaN}', -32700],
  ['too deep', `{"jsonrpc":"2.0","id":1,"method":"ping","params":${'['.repeat(100_000)}`, -32700],
  ['a text', '"ping"', -32600],
  ['a number', '5', -32600],
  ['null', 'null', -32600],
  ['a batch', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600],
  ['no method', '{"jsonrpc":"2.0","id":1}', -32600],
  ['an id that is null', '{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600],
  ['an id that is true', '{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600],
  ['JSON-RPC 1.0', '{"id":1,"method":"ping"}', -32600],
])('%s is answered with an error, and the next message is read', async (_name, line, code) => {
  const gateway = await start({}, { bare: true })
  gateway.write(line)
  await gateway.request('ping', undefined, 'next')
  expect(gateway.messages[0]).toMatchObject({ id: null, error: { code } })
})

describe('a tool call', () => {
  test('asks first with the documented question, and reports afterwards', async () => {
    const gateway = await start(undefined, { env: { ...env(), SERVICE_ORG_ID: 'org_1' } })
    await gateway.tools()
    const result = await gateway.call(
      'odd__echo',
      { path: '日本', n: 1.5 },
      { 'claudecode/toolUseId': 'toolu_7', x: 1 },
    )
    expect(JSON.parse(textOf(result))).toEqual({
      name: 'echo',
      arguments: { path: '日本', n: 1.5 },
      meta: { 'claudecode/toolUseId': 'toolu_7', x: 1 },
    })
    const asked = {
      session_id: expect.stringMatching(/^mcp-[0-9a-f]{32}$/),
      tool_name: 'mcp__odd__echo',
      tool_input: { path: '日本', n: 1.5 },
      tool_use_id: 'toolu_7',
    }
    await until('it is reported', () => service.asked.length === 2)
    const [question, report] = service.asked.map(({ path, body }) => ({ path, body: JSON.parse(body) }))
    expect(question).toEqual({
      path: '/api/v1/authorize',
      body: { ...asked, agent: { name: 'tester', kind: 'mcp' }, organization_id: 'org_1' },
    })
    expect(report).toEqual({ path: '/api/v1/authorize/observe', body: { ...asked, outcome: 'ok' } })
    expect(service.asked[0]?.headers['authorization']).toBe('Bearer csk_test')
  })

  test('uses the client’s session and call ids if given, else its own', async () => {
    const gateway = await start()
    await gateway.tools()
    await gateway.call('odd__echo', {}, { callId: 'call_1', sessionId: 'codex-session' })
    await gateway.call('odd__echo')
    await gateway.call('odd__echo', {}, { callId: 7, sessionId: 'bad\u0007' })
    const [first, second, third] = questions()
    expect(first).toMatchObject({ session_id: 'codex-session', tool_use_id: 'call_1' })
    expect(second.session_id).toMatch(/^mcp-/)
    expect(third.session_id).toBe(second.session_id)
    expect(third.tool_use_id).not.toBe(second.tool_use_id)
  })

  test('denied: an error of the tool that names the rule, and the server gets no call', async () => {
    const log = logFile()
    service.script = (_asked, socket) => reply(socket, 200, denied)
    const gateway = await start({ odd: odd({ log }) })
    await gateway.tools()
    expect(await gateway.call('odd__echo', { secret: 's3cret' })).toEqual({
      content: [{ type: 'text', text: 'blocked by rule `no-egress`: the side effect is `egress`' }],
      isError: true,
    })
    expect(JSON.stringify(noted(log))).not.toContain('s3cret')
    expect(gateway.stderr).not.toContain('s3cret')
  })

  test('sends annotations as hints', async () => {
    const annotations = { readOnlyHint: true, openWorldHint: true, title: 'x', other: [1] }
    const tool = { name: 'shown', inputSchema: { type: 'object' }, annotations }
    const gateway = await start({ odd: odd({ tools: [tool] }) })
    expect((await gateway.tools())[0].annotations).toEqual(annotations)
    await gateway.call('odd__shown')
    expect(questions()[0].annotations).toEqual({ readOnlyHint: true, openWorldHint: true })
  })

  test.each<[string, object]>([
    ['no such tool', { name: 'odd__nothing' }],
    ['the name without its server', { name: 'echo' }],
    ['the server without a tool', { name: 'odd' }],
    ['no name', {}],
    ['arguments that are a list', { name: 'odd__echo', arguments: [1] }],
  ])('%s: -32602, and the service is not asked', async (_name, params) => {
    const gateway = await start()
    await gateway.tools()
    expect(await gateway.request('tools/call', params)).toMatchObject({ error: { code: -32602 } })
    expect(service.asked).toEqual([])
  })

  test('a result is passed on byte for byte, also 5 MB', async () => {
    const gateway = await start({ odd: odd({ tools: ['big'] }) })
    await gateway.tools()
    await gateway.answer(gateway.ask('tools/call', { name: 'odd__big' }, 'big'))
    const line = gateway.lines.at(-1) ?? ''
    const filler = '\\u00e9\\/é'.repeat(Math.floor((5 * 1024 * 1024) / 10))
    expect(line.length).toBeGreaterThan(4 * 1024 * 1024)
    expect(
      line ===
        `{"jsonrpc":"2.0","id":"big","result":{"content": [{"type":"text","text":"${filler}"}], "n": 1.0, "e":1E3, ` +
          '"z" :-0.0, "i": 123456789012345678901234567890, "_meta":{"b":1,"a":2}}}',
    ).toBe(true)
  })

  test('over 4 MiB it is refused with its size, and 3 MB pass', async () => {
    const gateway = await start()
    await gateway.tools()
    expect(textOf(await gateway.call('odd__echo', { text: 'x'.repeat(4 * 2 ** 20) }))).toMatch(
      /arguments are 4,194,\d{3} bytes long, over the 4,194,304 that are checked/,
    )
    expect(textOf(await gateway.call('odd__echo', { text: 'é'.repeat(1_500_000) })).length).toBeGreaterThan(
      1_500_000,
    )
    expect(questions()).toHaveLength(1)
  })

  test('an error of the server is passed on unchanged', async () => {
    const gateway = await start({ odd: odd({ tools: ['refuses', 'fails'] }) })
    await gateway.tools()
    expect(await gateway.request('tools/call', { name: 'odd__refuses' })).toMatchObject({
      error: { code: -32050, message: 'no', data: { x: 1 } },
    })
    expect(await gateway.call('odd__fails')).toMatchObject({ isError: true })
    await until('both are reported', () => service.asked.length === 4)
    const reports = service.asked
      .filter(({ path }) => path.endsWith('/observe'))
      .map(({ body }) => JSON.parse(body))
    expect(reports.map(({ outcome }) => outcome)).toEqual(['error', 'error'])
  })
})
