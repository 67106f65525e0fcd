import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { sdkOne, sdkTwo } from './peers.ts'
import { logFile, noted, odd, textOf, gatewayFile, python, type Gateway, type Wire } from './run-mcp.ts'
import { allowed, reply, denied, held } from './scripted-service.ts'
import { sharedGateway, useGateways, type Gateways } from './use-service.ts'

let service: Gateways['service']
let start: Gateways['start']
let questions: Gateways['questions']
useGateways((started) => ({ service, start, questions } = started))

const names = async (gateway: Gateway): Promise<string[]> =>
  (await gateway.tools()).map((tool: Wire) => tool.name)
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
    const tools = [{ ...shown, execution: { taskSupport: 'optional' } }, task, { name: 7 }]
    const gateway = await start({ odd: odd({ tools }) })
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
  const annotations = { definitionChanged: true }
  expect(questions()[0]).toMatchObject({ tool_name: 'mcp__odd__echo', annotations })
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

  test('bytes that are no UTF-8 become U+FFFD', async () => {
    const gateway = await start({ odd: odd({ tools: ['unreadable'] }) })
    await gateway.tools()
    expect(textOf(await gateway.call('odd__unreadable', { byte: 0xe9 }))).toBe('caf\ufffd')
  })

  test.each([
    ['a tab in a text', { byte: 9 }],
    ['NaN', { byte: 0x65, more: ',"structuredContent":{"n":NaN}' }],
  ])('an answer with %s ends its call', async (_what, given) => {
    const gateway = await start({ odd: odd({ tools: ['unreadable'] }) })
    await gateway.tools()
    const result = await gateway.call('odd__unreadable', given)
    expect(result.isError).toBe(true)
    expect(textOf(result)).toContain('whether the call took effect is not known')
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
    const log = logFile()
    const gateway = await start({ odd: odd({ tools: ['crash', 'hang', 'echo'], log }), other: odd() })
    expect(await names(gateway)).toHaveLength(4)
    const hanging = gateway.ask('tools/call', { name: 'odd__hang' })
    await until('it hangs', () => noted(log).some(({ method }) => method === 'tools/call'))
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

  test('those that cannot be used delay nobody, and a word is said of each', async () => {
    const useless: Readonly<Record<string, object>> = {
      'ends-at-once': odd({ die: true }),
      'speaks-no-known-version': odd({ version: '2099-01-01' }),
      'does-not-exist': { command: '/no/such/program' },
      'is-no-program': { type: 'http', url: 'https://example.com' },
      'needs-an-unset-variable': odd({}, { env: { TOKEN: '${NOT_SET_ANYWHERE}' } }),
      'needs-the-key-of-the-service': odd({}, { env: { TOKEN: '${SERVICE_API_KEY}' } }),
    }
    const gateway = await start({ ...useless, good: odd() })
    expect(await names(gateway)).toEqual(['good__echo'])
    for (const name of Object.keys(useless))
      await until(`${name} is told of`, () => gateway.stderr.includes(`server \`${name}\``))
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
    { env: { ANTHROPIC_API_KEY: 'sk-other', FROM_OUTSIDE: 'given' } },
  )
  await gateway.tools()
  const given = JSON.parse(textOf(await gateway.call('odd__env')))
  expect(given).toMatchObject({ OWN: 'given and a default', PATH: process.env['PATH'] })
  expect(JSON.stringify(given)).not.toMatch(/csk_test|sk-other|SERVICE_/)
})

/* Hostile servers and clients attack each other, the other servers, or the gateway's request to the service. */
describe('hostile', () => {
  const hostileServer = fileURLToPath(new URL('upstreams/hostile-server.py', import.meta.url))
  const hostile = (said: object = {}): object => ({
    command: python,
    args: ['-I', '-S', hostileServer, JSON.stringify(said)],
  })

  const listed = async (servers: Record<string, unknown>, more: object = {}): Promise<Gateway> => {
    const gateway = await start(servers, more)
    await gateway.tools()
    return gateway
  }
  const toolsAsked = (): string[] => questions().map(({ tool_name }) => tool_name)

  describe('a server', () => {
    test('cannot put a message of its own into its answer', async () => {
      const gateway = await listed({ bad: hostile() })
      expect((await gateway.call('bad__forge')).x).toEqual({ jsonrpc: '2.0', id: 'forged', result: {} })
      expect(gateway.messages.filter(({ id }) => id === 'forged')).toEqual([])
    })

    test('cannot answer for another, nor twice', async () => {
      const gateway = await listed({ bad: hostile(), good: odd({ tools: ['hang'] }) })
      const hanging = gateway.ask('tools/call', { name: 'good__hang' })
      expect(textOf(await gateway.call('bad__twice'))).toBe('once')
      await gateway.request('ping')
      expect(gateway.messages.filter(({ id }) => id === hanging)).toEqual([])
      expect(gateway.lines.filter((line) => /"text": ?"(twice|of another)"/.test(line))).toEqual([])
    })

    test.each([
      ['a number beyond all numbers', '[{"name":"a","inputSchema":{"type":"object","maximum":1e999}}]'],
      ['a value nested too deeply', `[{"name":"a","inputSchema":${'{"x":'.repeat(900)}1${'}'.repeat(900)}}]`],
      ['half a character', '[{"name":"a","description":"\\ud800","inputSchema":{"type":"object"}}]'],
    ])('whose list contains %s does not break the others’ lists', async (_name, tools) => {
      const gateway = await listed({ bad: hostile({ tools }), good: odd() })
      await until('both are listed', async () =>
        (await gateway.tools()).some(({ name }: Wire) => name === 'good__echo'),
      )
      expect((await gateway.call('good__echo')).isError).toBeUndefined()
    })

    const tool = (name: string, more: object = {}): object => ({
      name,
      inputSchema: { type: 'object' },
      ...more,
    })
    const misshapen = JSON.stringify([
      { name: 'bad1' },
      { name: 'bad2', description: 7, inputSchema: 5 },
      tool('good'),
      tool('bad3', { annotations: { readOnlyHint: 'yes' } }),
      tool('riddle', { outputSchema: { type: 'object', properties: { a: { $ref: '#/nowhere' } } } }),
    ])
    const everyList = {
      tools: misshapen,
      prompts: '[{"name":"p"},{"name":"bad","arguments":"x"}]',
      resources: '[{"uri":[["x"]],"name":"bad"},{"uri":"known://1","name":"one"}]',
      templates: '[{"uriTemplate":7,"name":"bad"},{"uriTemplate":"a://{x}","name":"t"}]',
    }

    test('keeps its valid entries if some break the protocol, and a warning is logged', async () => {
      const gateway = await listed({ bad: hostile(everyList) })
      const list = async (method: string, member: string): Promise<Wire[]> =>
        (await gateway.request(method)).result[member]
      expect(await gateway.tools()).toEqual([tool('bad__good'), tool('bad__riddle')])
      expect(await list('prompts/list', 'prompts')).toEqual([{ name: 'bad__p' }])
      expect(await list('resources/list', 'resources')).toEqual([{ uri: 'known://1', name: 'one' }])
      const templates = await list('resources/templates/list', 'resourceTemplates')
      expect(templates).toEqual([{ uriTemplate: 'a://{x}', name: 't' }])
      await until('a word is said of each', () =>
        ['3 tools', '1 prompts', '1 resources ', '1 resourceTemplates', '`riddle`'].every((word) =>
          gateway.stderr.includes(word),
        ),
      )
    })

    test('keeps its valid entries also in later lists', async () => {
      const gateway = await listed({ bad: hostile() })
      expect(textOf(await gateway.call('bad__relist', { tools: misshapen }))).toBe('relisted')
      await until('the change is told', () => gateway.told('notifications/tools/list_changed').length > 0)
      expect(await gateway.tools()).toEqual([tool('bad__good'), tool('bad__riddle')])
    })

    test.each([
      ['SDK v1', sdkOne],
      ['SDK v2', sdkTwo],
    ])('does not hide the others’ tools from a client that validates: %s', async (_name, load) => {
      const { Client, Transport } = await load()
      const config = join(temporaryFolder(), 'servers.json')
      writeFileSync(config, JSON.stringify({ mcpServers: { bad: hostile(everyList), good: odd() } }))
      const client = new Client({ name: 'strict', version: '1' }, { capabilities: {} })
      const args = ['-I', '-S', gatewayFile, '--config', config]
      await client.connect(
        new Transport({
          command: python,
          args,
          env: { ...process.env, SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' },
          stderr: 'ignore',
        }),
      )
      try {
        const { tools } = await client.listTools()
        expect(tools.map(({ name }: Wire) => name)).toEqual(['bad__good', 'bad__riddle', 'good__echo'])
        expect((await client.listPrompts()).prompts).toHaveLength(1)
        expect((await client.listResources()).resources).toHaveLength(1)
      } finally {
        await client.close()
      }
    })

    const asks = (method: string, params: string): string =>
      `{"jsonrpc":"2.0","id":"e1","method":"${method}","params":${params}}`
    const tells = (method: string, params: string): string =>
      `{"jsonrpc":"2.0","method":"notifications/${method}","params":${params}}`
    const huge = tells('progress', `{"progressToken":$token,"progress":${'9'.repeat(391)}}`)

    test('that asks its client in a wrong form is refused, and continues', async () => {
      const log = logFile()
      const refusals = () =>
        noted(log).filter(({ id, error }) => id === 'e1' && typeof error?.code === 'number').length
      const gateway = await listed({ bad: hostile({ log }) }, { capabilities: { elicitation: {} } })
      const wrong = ['{"mode":[],"message":"x"}', '{"mode":{},"message":"x"}', '{"message":["x"]}']
      for (const [turn, params] of wrong.entries()) {
        const lines = [asks('elicitation/create', params)]
        expect(textOf(await gateway.call('bad__say', { lines }))).toBe('said')
        await until(`${params} is refused`, () => refusals() === turn + 1)
      }
      expect(gateway.told('elicitation/create')).toEqual([])
      expect(textOf(await gateway.call('bad__say', { lines: [] }))).toBe('said')
      expect(gateway.stderr).not.toContain('has ended')
    })

    let bad: Gateway
    sharedGateway(
      () => listed({ bad: hostile() }),
      (gateway) => (bad = gateway),
    )

    test.each([
      ['progress beyond all numbers', [huge, huge]],
      ['a total beyond all numbers', [huge.replace('}}', ',"total":' + '9'.repeat(391) + '}}')]],
      ['progress that is not a number', [tells('progress', '{"progressToken":$token,"progress":[]}')]],
      ['progress of no request', [tells('progress', '{"progressToken":[],"progress":1}')]],
      ['an unknown log level', [tells('message', '{"level":["info"],"data":1}')]],
      ['a change of something that is not an address', [tells('resources/updated', '{"uri":[]}')]],
      ['the end of something that is not a request', [tells('elicitation/complete', '{}')]],
      ['a cancellation without an id', [tells('cancelled', '{"requestId":[{}]}'), tells('cancelled', '{}')]],
    ])('that sends %s continues', async (_name, lines) => {
      const meta = { progressToken: 'p' }
      expect(textOf(await bad.call('bad__say', { lines }, meta))).toBe('said')
      expect(textOf(await bad.call('bad__say', { lines: [] }))).toBe('said')
      expect(bad.stderr).not.toContain('has ended')
      for (const each of ['message', 'resources/updated', 'elicitation/complete'])
        expect(bad.told(`notifications/${each}`)).toEqual([])
    })

    test('that sends numbers beyond all numbers continues', async () => {
      const meta = { progressToken: 'p' }
      for (let turn = 0; turn < 2; turn += 1)
        expect(textOf(await bad.call('bad__beyond', {}, meta))).toBe('beyond')
      expect(bad.stderr).not.toContain('has ended')
    })

    test('that asks and does not read does not delay the others', async () => {
      const gateway = await listed({ bad: hostile(), good: odd() })
      expect(textOf(await gateway.call('bad__deaf'))).toBe('now deaf')
      for (let turn = 0; turn < 20; turn += 1)
        expect((await gateway.call('good__echo', { turn })).isError).toBeUndefined()
    })

    test('cannot flood its client with questions', async () => {
      const gateway = await listed({ bad: hostile() }, { capabilities: { elicitation: {} } })
      expect(textOf(await gateway.call('bad__nag'))).toBe('asked')
      await gateway.request('ping')
      const asked = gateway.told('elicitation/create')
      expect(asked).toHaveLength(100)
      expect(asked[0].params.message).toBe('[bad] your password?')
    })

    test('that is useless and does not end is ended and started again', async () => {
      const log = logFile()
      await start({ bad: odd({ version: '1999-01-01', stubborn: true, log }) })
      const started = (): number[] => noted(log).flatMap(({ started: pid }) => pid ?? [])
      await until('it is started again', () => started().length > 1)
      expect(() => process.kill(started()[0] as number, 0)).toThrow('ESRCH')
    })

    test('whose tool changes while a call of it is held does not get the call', async () => {
      let decided = false
      service.script = ({ path, body }, socket) => {
        if (path.startsWith('/api/v1/authorize/approvals/'))
          return reply(socket, 200, { status: decided ? 'approved' : 'pending' })
        reply(
          socket,
          200,
          path === '/api/v1/authorize' && body.includes('__echo') && !decided ? held : allowed,
        )
      }
      const log = logFile()
      const gateway = await listed({ bad: odd({ tools: ['echo', 'mutate'], log }) })
      const waiting = gateway.ask('tools/call', { name: 'bad__echo' })
      await until('it is held', () => service.asked.some(({ path }) => path.includes('/approvals/')))
      expect(textOf(await gateway.call('bad__mutate'))).toBe('mutated')
      await until('the change is seen', () => gateway.stderr.includes('tool `echo`'))
      decided = true
      expect(textOf((await gateway.answer(waiting)).result)).toContain('has changed its description')
      expect(
        noted(log).filter(({ method, params }) => method === 'tools/call' && params.name === 'echo'),
      ).toEqual([])
    })
  })

  describe('a client', () => {
    test('cancels the call that it means, however it writes the id', async () => {
      service.script = ({ path }, socket) => {
        if (path.endsWith('/cancel')) return reply(socket, 200, {})
        reply(socket, 200, path.includes('/approvals/') ? { status: 'pending' } : held)
      }
      const gateway = await listed({ odd: odd() })
      gateway.write('{"jsonrpc":"2.0","id":"caf\\u00e9","method":"tools/call","params":{"name":"odd__echo"}}')
      await until('it is held', () => service.asked.some(({ path }) => path.includes('/approvals/')))
      gateway.send({ method: 'notifications/cancelled', params: { requestId: 'café' } })
      await until('it is withdrawn', () => service.asked.some(({ path }) => path.endsWith('/cancel')))
    })

    test('has one call per id at a time; 1 and 1.0 are one id', async () => {
      const gateway = await listed({ odd: odd({ tools: ['hang'] }) })
      const call = (id: string): void =>
        gateway.write(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"odd__hang"}}`)
      call('71')
      call('71.0')
      expect((await gateway.answer(71)).error.message).toContain('still open')
    })

    test('gives no server an unlisted address without asking the service', async () => {
      const log = logFile()
      const gateway = await listed({ bad: hostile({ log }) })
      const told = (): Wire[] => noted(log).filter(({ method }) => method === 'resources/subscribe')
      const subscribe = (): Promise<Wire> => gateway.request('resources/subscribe', { uri: 'leak://secret' })
      service.script = (_asked, socket) => reply(socket, 200, denied)
      expect((await subscribe()).error.message).toContain('no-egress')
      expect(toolsAsked()).toEqual(['mcp__bad__resources_read'])
      expect(told()).toEqual([])
      service.script = (_asked, socket) => reply(socket, 200, allowed)
      expect(await subscribe()).toHaveProperty('result')
      expect(told()).toHaveLength(1)
    })

    test('subscribes to listed resources without a question to the service', async () => {
      const gateway = await listed({ bad: hostile() })
      await gateway.request('resources/list')
      expect(await gateway.request('resources/subscribe', { uri: 'known://1' })).toHaveProperty('result')
      expect(toolsAsked()).toEqual([])
    })

    test('passes only known log levels to servers', async () => {
      const log = logFile()
      const gateway = await listed({ bad: hostile({ log }) })
      expect((await gateway.request('logging/setLevel', { level: 'secret' })).error.code).toBe(-32602)
      expect((await gateway.request('logging/setLevel', { level: 'info' })).result).toEqual({})
      await until('it is told', () => noted(log).some(({ method }) => method === 'logging/setLevel'))
      expect(JSON.stringify(noted(log))).not.toContain('secret')
    })
  })
})
