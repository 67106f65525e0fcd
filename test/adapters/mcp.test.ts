import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { selfSigned } from '../support/self-signed.ts'
import { logFile, noted, odd, startGateway, textOf, type Gateway, type Wire } from './run-mcp.ts'
import { allowed, denied, reply, type ScriptedService } from './scripted-service.ts'
import { sharedGateway, useGateways, useService, type Gateways } from './use-service.ts'

let service: Gateways['service']
let start: Gateways['start']
let questions: Gateways['questions']
useGateways((started) => ({ service, start, questions } = started))

/** The reports of a shared gateway must not come during the next test. */
const reported = (): Promise<void> => {
  const reports = () => service.asked.filter(({ path }) => path.endsWith('/observe')).length
  return until('everything is reported', () => reports() === questions().length)
}

describe('the greeting', () => {
  test('`server/discover` is answered as unknown, without starting a server', async () => {
    const log = logFile()
    const gateway = await start({ odd: odd({ log }) }, { bare: true })
    const answer = await gateway.request('server/discover', { _meta: {} }, 'probe')
    const error = { code: -32601, message: 'Method not found' }
    expect(answer).toEqual({ jsonrpc: '2.0', id: 'probe', error })
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
    const [tools, prompts] = [{ listChanged: true }, { listChanged: true }]
    const resources = { subscribe: true, listChanged: true }
    const capabilities = { tools, resources, prompts, logging: {}, completions: {} }
    expect(result).toMatchObject({ protocolVersion: told, capabilities })
    expect(result.capabilities.tasks).toBeUndefined()
    await gateway.tools()
    const params = expect.objectContaining({ protocolVersion: told })
    expect(noted(log)).toContainEqual(expect.objectContaining({ method: 'initialize', params }))
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
  let greeted: Gateway
  const greet = async () => {
    const gateway = await start({}, { bare: true })
    await gateway.request('initialize', { protocolVersion: '2025-11-25', capabilities: {} }, 'greeting')
    return gateway
  }
  sharedGateway(greet, (gateway) => (greeted = gateway))

  test.each([0, 'x', '0', -3, 1.5])('id %j comes back unchanged', async (id) => {
    expect(await greeted.request('tools/list', {}, id)).toEqual({ jsonrpc: '2.0', id, result: { tools: [] } })
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

describe('a line that is no message', () => {
  let gateway: Gateway
  sharedGateway(
    () => start({}, { bare: true }),
    (started) => (gateway = started),
  )
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
    const before = gateway.messages.length
    gateway.write(line)
    await gateway.request('ping')
    expect(gateway.messages[before]).toMatchObject({ id: null, error: { code } })
  })
})

describe('a tool call', () => {
  let odder: Gateway
  const listed = async () => {
    const gateway = await start()
    await gateway.tools()
    return gateway
  }
  sharedGateway(listed, (gateway) => (odder = gateway))

  test('asks first with the documented question, and reports afterwards', async () => {
    const gateway = await start(undefined, { env: { SERVICE_ORG_ID: 'org_1' } })
    await gateway.tools()
    const [given, meta] = [
      { path: '日本', n: 1.5 },
      { 'claudecode/toolUseId': 'toolu_7', x: 1 },
    ]
    const result = await gateway.call('odd__echo', given, meta)
    expect(JSON.parse(textOf(result))).toEqual({ name: 'echo', arguments: given, meta })
    const session_id = expect.stringMatching(/^mcp-[0-9a-f]{32}$/)
    const asked = { session_id, tool_name: 'mcp__odd__echo', tool_input: given, tool_use_id: 'toolu_7' }
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
    await odder.call('odd__echo', {}, { callId: 'call_1', sessionId: 'codex-session' })
    await odder.call('odd__echo')
    await odder.call('odd__echo', {}, { callId: 7, sessionId: 'bad\u0007' })
    const [first, second, third] = questions()
    expect(first).toMatchObject({ session_id: 'codex-session', tool_use_id: 'call_1' })
    expect(second.session_id).toMatch(/^mcp-/)
    expect(third.session_id).toBe(second.session_id)
    expect(third.tool_use_id).not.toBe(second.tool_use_id)
    await reported()
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
    expect(await odder.request('tools/call', params)).toMatchObject({ error: { code: -32602 } })
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
    const call = async (text: string) => textOf(await odder.call('odd__echo', { text }))
    const refused = /arguments are 4,194,\d{3} bytes long, over the 4,194,304 that are checked/
    expect(await call('x'.repeat(4 * 2 ** 20))).toMatch(refused)
    expect((await call('é'.repeat(1_500_000))).length).toBeGreaterThan(1_500_000)
    expect(questions()).toHaveLength(1)
    await reported()
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

/* The gateway forwards only calls for which it asked the service, with exactly the same numbers. */

const extra = { leak: 'secret', _meta: { progressToken: 'p' } }
const own = { arguments: { a: 'b' } }

describe('what a server gets', () => {
  const log = logFile()
  let gateway: Gateway
  const begin = async () => {
    const started = await start({ odd: odd({ resources: ['a://1'], prompts: ['greet'], log }) })
    await started.tools()
    await started.request('resources/list')
    return started
  }
  sharedGateway(begin, (started) => (gateway = started))

  test.each<[string, string, object, object]>([
    ['a resource', 'resources/read', { uri: 'a://1', ...extra }, { uri: 'a://1' }],
    ['a resource to subscribe to', 'resources/subscribe', { uri: 'a://1', ...extra }, { uri: 'a://1' }],
    ['a resource to unsubscribe from', 'resources/unsubscribe', { uri: 'a://1', ...extra }, { uri: 'a://1' }],
    ['a prompt', 'prompts/get', { name: 'odd__greet', ...extra }, { name: 'greet' }],
    ['arguments', 'prompts/get', { name: 'odd__greet', ...own, ...extra }, { name: 'greet', ...own }],
    ['a call', 'tools/call', { name: 'odd__echo', ...own, ...extra }, { name: 'echo', ...own }],
  ])(
    'for %s it is exactly the call that was asked about, and a progress token',
    async (_name, method, params, told) => {
      const before = noted(log).length
      await gateway.request(method, params)
      const heard = noted(log)
        .slice(before)
        .filter((each: Wire) => each.method === method)
      const meta = { _meta: { progressToken: expect.any(Number) } }
      expect(heard.map((each: Wire) => each.params)).toEqual([{ ...told, ...meta }])
      await reported()
    },
  )
})

describe('numbers', () => {
  const gateways: Gateway[] = []
  for (const SERVICE_FAIL_MODE of ['closed', 'open']) {
    const begin = async () => {
      const gateway = await start(undefined, { env: { SERVICE_FAIL_MODE } })
      await gateway.tools()
      return gateway
    }
    sharedGateway(begin, (gateway) => gateways.push(gateway))
  }
  const call = async (numbers: string, gateway = gateways[0] as Gateway): Promise<Wire> => {
    const params = `{"name":"odd__echo","arguments":{"a":[${numbers}]}}`
    gateway.write(
      `{"jsonrpc":"2.0","id":${JSON.stringify(numbers)},"method":"tools/call","params":${params}}`,
    )
    return (await gateway.answer(numbers)).result
  }

  test.each([
    '9007199254740993',
    '-9007199254740992',
    '9007199254740993.0',
    '1e22',
    '1e400',
    '1, {"b": -1e400}',
  ])('%s would be read differently by the service: blocked, in open mode too', async (number) => {
    for (const gateway of gateways) {
      const result = await call(number, gateway)
      expect(result.isError).toBe(true)
      expect(textOf(result)).toContain('beyond 9007199254740991, which other programs round: give it as text')
    }
    expect(service.asked).toEqual([])
  })

  test('other values are passed on as they were asked about', async () => {
    const given = '9007199254740991,-9007199254740991,0.1,1e-7,123456.789,1e15,true,"9007199254740993"'
    const result = await call(given)
    const { arguments: heard } = JSON.parse(textOf(result))
    expect(heard).toEqual({ a: JSON.parse(`[${given}]`) })
    expect(JSON.parse(service.asked[0]?.body ?? '').tool_input).toEqual(heard)
    await reported()
  })
})

test('a gateway that cannot ask says so in its greeting, and blocks', async () => {
  const gateway = await start(undefined, { env: { SERVICE_API_KEY: '' }, bare: true })
  const { result } = await gateway.initialize()
  expect(result.instructions).toMatch(/^No call can be checked, .* SERVICE_API_KEY is not set/)
  await gateway.tools()
  expect((await gateway.call('odd__echo')).isError).toBe(true)
  const sound = await start({}, { bare: true })
  expect((await sound.initialize()).result.instructions).toMatch(/^Tools of several servers/)
})

const two = {
  one: odd({ resources: ['a://1', 'same://x'], prompts: ['greet'], says: 'one' }),
  two: odd({ resources: ['b://2', 'same://x'], hidden: ['h://9'], prompts: ['greet'], says: 'two' }),
}

test('resources and prompts are listed together, and asked about', async () => {
  const gateway = await start(two)
  const { result } = await gateway.request('resources/list')
  expect(result.resources.map(({ uri }: { uri: string }) => uri)).toEqual(['a://1', 'same://x', 'b://2'])
  const read = async (uri: string) =>
    (await gateway.request('resources/read', { uri })).result?.contents?.[0]?.text
  expect(await read('b://2')).toBe('two')
  expect(await read('same://x')).toBe('one')
  // No server lists this resource, so the gateway asks each server in turn.
  expect(await read('h://9')).toBe('two')
  const { result: prompts } = await gateway.request('prompts/list')
  expect(prompts.prompts.map(({ name }: { name: string }) => name)).toEqual(['one__greet', 'two__greet'])
  const got = await gateway.request('prompts/get', { name: 'two__greet', arguments: { a: 'b' } })
  expect(JSON.parse(got.result.description)).toEqual({ name: 'greet', arguments: { a: 'b' } })
  expect(questions().map(({ tool_name, tool_input }) => [tool_name, tool_input])).toEqual([
    ['mcp__two__resources_read', { uri: 'b://2' }],
    ['mcp__one__resources_read', { uri: 'same://x' }],
    ['mcp__one__resources_read', { uri: 'h://9' }],
    ['mcp__two__resources_read', { uri: 'h://9' }],
    ['mcp__two__prompts_get', { name: 'greet', arguments: { a: 'b' } }],
  ])
})

test('an unknown resource or prompt is not found; a denied one is an error that names the rule', async () => {
  const log = logFile()
  const gateway = await start({ one: odd({ resources: ['a://1'], prompts: ['greet'], log }) })
  expect((await gateway.request('resources/read', { uri: 'z://' })).error.code).toBe(-32002)
  expect((await gateway.request('prompts/get', { name: 'one__none' })).error.code).toBe(-32602)
  service.script = (_asked, socket) => reply(socket, 200, denied)
  const message = 'blocked by rule `no-egress`: the side effect is `egress`'
  for (const [method, params] of [
    ['resources/read', { uri: 'a://1' }],
    ['prompts/get', { name: 'one__greet' }],
  ] as const)
    expect(await gateway.request(method, params)).toMatchObject({ error: { code: 403, message } })
  const methods = noted(log).map(({ method }) => method)
  expect(methods.filter((each) => each === 'resources/read')).toHaveLength(1)
  expect(methods).not.toContain('prompts/get')
})

test('two servers both request roots/list with id 0: each gets its own answer', async () => {
  const [one, two] = [logFile(), logFile()]
  const gateway = await start(
    { one: odd({ roots: true, log: one }), two: odd({ roots: true, log: two }) },
    { capabilities: { roots: { listChanged: true } } },
  )
  await until('both have asked', () => gateway.told('roots/list').length === 2)
  const ids = gateway.told('roots/list').map(({ id }) => id)
  expect(new Set(ids).size).toBe(2)
  for (const id of ids)
    gateway.send({ id, result: { roots: [{ uri: `file:///${String(id).split(':')[0]}` }] } })
  for (const [log, uri] of [
    [one, 'file:///one'],
    [two, 'file:///two'],
  ] as const) {
    await until('the answer is there', () => noted(log).some(({ result }) => result !== undefined))
    const answer = { jsonrpc: '2.0', id: 0, result: { roots: [{ uri }] } }
    expect(noted(log).find(({ result }) => result)).toEqual(answer)
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
  expect(gateway.told('roots/list')).toEqual([])
  gateway.send({ method: 'notifications/initialized' })
  await until('it comes', () => gateway.told('roots/list').length === 1)
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
  expect(gateway.told(method)).toEqual([])
  const offered = noted(log).find((each) => each.method === 'initialize').params.capabilities
  expect(offered['tasks']).toBeUndefined()
})

test('elicitation names the server, and its answer goes back with the id as it was', async () => {
  const gateway = await start({ odd: odd({ tools: ['ask'] }) }, { capabilities: { elicitation: {} } })
  await gateway.tools()
  const params = { message: 'Your colour?', requestedSchema: { type: 'object', properties: {} } }
  for (const [turn, id] of [7, '7'].entries()) {
    const ask = { id, method: 'elicitation/create', params }
    const call = gateway.ask('tools/call', { name: 'odd__ask', arguments: ask })
    await until('it asks', () => gateway.told('elicitation/create').length === turn + 1)
    const asked = gateway.told('elicitation/create')[turn]
    expect(asked.params).toEqual({ ...params, message: '[odd] Your colour?' })
    const result = { action: 'cancel' }
    gateway.send({ id: asked.id, result })
    expect(JSON.parse(textOf((await gateway.answer(call)).result))).toMatchObject({ id, result })
  }
})

test('a sampling request is asked about like a call', async () => {
  const gateway = await start({ odd: odd({ tools: ['ask'] }) }, { capabilities: { sampling: {} } })
  await gateway.tools()
  const params = { messages: [], maxTokens: 5 }
  const ask = { id: 1, method: 'sampling/createMessage', params }
  const call = gateway.ask('tools/call', { name: 'odd__ask', arguments: ask })
  await until('it asks', () => gateway.told('sampling/createMessage').length === 1)
  const tool_name = 'mcp__odd__sampling_create_message'
  expect(questions().at(-1)).toMatchObject({ tool_name, tool_input: params })
  gateway.send({ id: gateway.told('sampling/createMessage')[0].id, result: { model: 'm' } })
  expect(textOf((await gateway.answer(call)).result)).toContain('"model": "m"')
  service.script = (asked, socket) =>
    reply(socket, 200, asked.body.includes('"mcp__odd__sampling') ? denied : allowed)
  const answer = JSON.parse(textOf(await gateway.call('odd__ask', ask)))
  expect(answer.error.message).toContain('no-egress')
  expect(gateway.told('sampling/createMessage')).toHaveLength(1)
})

test('a request that the server cancels, or a dead server made, is cancelled at the client', async () => {
  const servers = { odd: odd({ tools: ['take_back', 'ask', 'crash'] }) }
  const gateway = await start(servers, { capabilities: { roots: {} } })
  await gateway.tools()
  await gateway.call('odd__take_back')
  gateway.ask('tools/call', { name: 'odd__ask', arguments: { id: 1, method: 'roots/list' } })
  await until('it asks again', () => gateway.told('roots/list').length === 2)
  await gateway.call('odd__crash')
  await until('both are taken back', () => gateway.told('notifications/cancelled').length === 2)
  expect(gateway.told('notifications/cancelled').map(({ params }) => params.requestId)).toEqual(
    gateway.told('roots/list').map(({ id }) => id),
  )
})

const written = (name: string, text: string): string => {
  const path = join(temporaryFolder(), name)
  writeFileSync(path, text, { mode: 0o600 })
  return path
}
/** Starts a gateway with the server `odd`, with a settings file and an environment. */
const beside = async (settings: object, env: NodeJS.ProcessEnv): Promise<Gateway> => {
  const file = written('hook.json', JSON.stringify({ api_key: 'csk_file', ...settings }))
  const gateway = await startGateway({ servers: { odd: odd() }, args: ['--settings', file], env })
  await gateway.tools()
  return gateway
}

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
  const env = { SERVICE_API_URL: 'http://127.0.0.1:1', SERVICE_API_KEY: 'csk_env' }
  const gateway = await beside({ api_url: service.url }, env)
  expect((await gateway.call('odd__echo')).isError).toBeUndefined()
  expect(service.asked[0]?.headers['authorization']).toBe('Bearer csk_file')
})

test('with a settings file the environment does not open the gateway', async () => {
  const loose = { SERVICE_FAIL_MODE: 'open', SERVICE_ALLOW_HTTP: '1', SERVICE_ORG_ID: 'org_other' }
  const gateway = await beside({ api_url: 'http://127.0.0.1:1' }, loose)
  const result = await gateway.call('odd__echo')
  expect(result.isError).toBe(true)
  expect(textOf(result)).toContain('unreachable')
})

describe('if there is a settings file, the file alone names', () => {
  let secure: ScriptedService
  useService((started) => (secure = started), undefined, true)

  test('the trusted authorities', async () => {
    const authority = written('authority.pem', readFileSync(selfSigned.certFile, 'utf8'))
    const deaf = await beside({ api_url: secure.url }, { SSL_CERT_FILE: authority })
    expect(textOf(await deaf.call('odd__echo'))).toContain('CERTIFICATE_VERIFY_FAILED')
    expect(secure.asked).toEqual([])
    const told = await beside({ api_url: secure.url, ca_file: authority }, {})
    expect((await told.call('odd__echo')).isError).toBeUndefined()
  })

  test('the proxy', async () => {
    service.script = (_asked, socket) => reply(socket, 403, {})
    const settings = { api_url: 'https://service.invalid' }
    const deaf = await beside(settings, { HTTPS_PROXY: service.url, https_proxy: service.url })
    expect((await deaf.call('odd__echo')).isError).toBe(true)
    expect(service.asked).toEqual([])
    const told = await beside({ ...settings, https_proxy: service.url }, {})
    expect((await told.call('odd__echo')).isError).toBe(true)
    expect(service.asked[0]).toMatchObject({ method: 'CONNECT', path: 'service.invalid:443' })
  })
})
