import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import {
  endGateways,
  gatewayFile,
  logFile,
  noted,
  odd,
  python,
  startGateway,
  textOf,
  type Gateway,
  type Wire,
} from './run-mcp.ts'
import { sdkOne, sdkTwo } from './peers.ts'
import { allowed, denied, held, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/*
 * Hostile servers and clients attack each other, the other servers of the gateway, or the gateway's request to the
 * service.
 */

const hostileServer = fileURLToPath(new URL('upstreams/hostile-server.py', import.meta.url))
const hostile = (said: object = {}): object => ({
  command: python,
  args: ['-I', '-S', hostileServer, JSON.stringify(said)],
})

let service: ScriptedService
beforeAll(async () => {
  service = await scriptedService(() => {})
})
beforeEach(() => {
  service.asked.length = 0
  service.script = (_asked, socket) => reply(socket, 200, allowed)
})
afterEach(endGateways)
afterAll(() => service.close())

const env = (): NodeJS.ProcessEnv => ({ SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' })
const start = async (servers: Record<string, unknown>, more: object = {}): Promise<Gateway> => {
  const gateway = await startGateway({ servers, env: env(), ...more })
  await gateway.tools()
  return gateway
}
const questions = (): string[] =>
  service.asked
    .filter(({ path }) => path === '/api/v1/authorize')
    .map(({ body }) => JSON.parse(body).tool_name)

describe('a server', () => {
  test('cannot put a message of its own into its answer', async () => {
    const gateway = await start({ bad: hostile() })
    expect((await gateway.call('bad__forge')).x).toEqual({ jsonrpc: '2.0', id: 'forged', result: {} })
    expect(gateway.messages.filter(({ id }) => id === 'forged')).toEqual([])
  })

  test('cannot answer for another, nor twice', async () => {
    const gateway = await start({ bad: hostile(), good: odd({ tools: ['hang'] }) })
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
    const gateway = await start({ bad: hostile({ tools }), good: odd() })
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
    const gateway = await start({ bad: hostile(everyList) })
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
    const gateway = await start({ bad: hostile() })
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
      new Transport({ command: python, args, env: { ...process.env, ...env() }, stderr: 'ignore' }),
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

  test.each([
    ['elicitation/create', '{"mode":[],"message":"x"}'],
    ['elicitation/create', '{"mode":{},"message":"x"}'],
    ['elicitation/create', '{"message":["x"]}'],
  ])('that asks %s %s is refused, and continues', async (method, params) => {
    const log = logFile()
    const capabilities = { elicitation: {} }
    const gateway = await start({ bad: hostile({ log }) }, { capabilities })
    expect(textOf(await gateway.call('bad__say', { lines: [asks(method, params)] }))).toBe('said')
    await until('it is refused', () =>
      noted(log).some(({ id, error }) => id === 'e1' && typeof error?.code === 'number'),
    )
    expect(gateway.told(method)).toEqual([])
    expect(textOf(await gateway.call('bad__say', { lines: [] }))).toBe('said')
    expect(gateway.stderr).not.toContain('has ended')
  })

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
    const gateway = await start({ bad: hostile() })
    const meta = { progressToken: 'p' }
    expect(textOf(await gateway.call('bad__say', { lines }, meta))).toBe('said')
    expect(textOf(await gateway.call('bad__say', { lines: [] }))).toBe('said')
    expect(gateway.stderr).not.toContain('has ended')
    for (const each of ['message', 'resources/updated', 'elicitation/complete'])
      expect(gateway.told(`notifications/${each}`)).toEqual([])
  })

  test('that sends numbers beyond all numbers continues', async () => {
    const gateway = await start({ bad: hostile() })
    const meta = { progressToken: 'p' }
    expect(textOf(await gateway.call('bad__beyond', {}, meta))).toBe('beyond')
    expect(textOf(await gateway.call('bad__beyond', {}, meta))).toBe('beyond')
    expect(gateway.stderr).not.toContain('has ended')
  })

  test('that asks and does not read does not delay the others', async () => {
    const gateway = await start({ bad: hostile(), good: odd() })
    expect(textOf(await gateway.call('bad__deaf'))).toBe('now deaf')
    for (let turn = 0; turn < 20; turn += 1)
      expect((await gateway.call('good__echo', { turn })).isError).toBeUndefined()
  })

  test('cannot flood its client with questions', async () => {
    const gateway = await start({ bad: hostile() }, { capabilities: { elicitation: {} } })
    expect(textOf(await gateway.call('bad__nag'))).toBe('asked')
    await gateway.request('ping')
    const asked = gateway.told('elicitation/create')
    expect(asked).toHaveLength(100)
    expect(asked[0].params.message).toBe('[bad] your password?')
  })

  test('that is useless and does not end is ended and started again', async () => {
    const log = logFile()
    await startGateway({ servers: { bad: odd({ version: '1999-01-01', stubborn: true, log }) }, env: env() })
    const started = (): number[] => noted(log).flatMap(({ started: pid }) => pid ?? [])
    await until('it is started again', () => started().length > 1)
    expect(() => process.kill(started()[0] as number, 0)).toThrow('ESRCH')
  })

  test('whose tool changes while a call of it is held does not get the call', async () => {
    let decided = false
    service.script = ({ path, body }, socket) => {
      if (path.startsWith('/api/v1/authorize/approvals/'))
        return reply(socket, 200, { status: decided ? 'approved' : 'pending' })
      reply(socket, 200, path === '/api/v1/authorize' && body.includes('__echo') && !decided ? held : allowed)
    }
    const log = logFile()
    const gateway = await start({ bad: odd({ tools: ['echo', 'mutate'], log }) })
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
    const gateway = await start({ odd: odd() })
    gateway.write('{"jsonrpc":"2.0","id":"caf\\u00e9","method":"tools/call","params":{"name":"odd__echo"}}')
    await until('it is held', () => service.asked.some(({ path }) => path.includes('/approvals/')))
    gateway.send({ method: 'notifications/cancelled', params: { requestId: 'café' } })
    await until('it is withdrawn', () => service.asked.some(({ path }) => path.endsWith('/cancel')))
  })

  test('has one call per id at a time; 1 and 1.0 are one id', async () => {
    const gateway = await start({ odd: odd({ tools: ['hang'] }) })
    const call = (id: string): void =>
      gateway.write(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"odd__hang"}}`)
    call('71')
    call('71.0')
    expect((await gateway.answer(71)).error.message).toContain('still open')
  })

  test('gives no server an unlisted address without asking the service', async () => {
    const log = logFile()
    const gateway = await start({ bad: hostile({ log }) })
    const told = (): Wire[] => noted(log).filter(({ method }) => method === 'resources/subscribe')
    const subscribe = (): Promise<Wire> => gateway.request('resources/subscribe', { uri: 'leak://secret' })
    service.script = (_asked, socket) => reply(socket, 200, denied)
    expect((await subscribe()).error.message).toContain('no-egress')
    expect(questions()).toEqual(['mcp__bad__resources_read'])
    expect(told()).toEqual([])
    service.script = (_asked, socket) => reply(socket, 200, allowed)
    expect(await subscribe()).toHaveProperty('result')
    expect(told()).toHaveLength(1)
  })

  test('subscribes to listed resources without a question to the service', async () => {
    const gateway = await start({ bad: hostile() })
    await gateway.request('resources/list')
    expect(await gateway.request('resources/subscribe', { uri: 'known://1' })).toHaveProperty('result')
    expect(questions()).toEqual([])
  })

  test('passes only known log levels to servers', async () => {
    const log = logFile()
    const gateway = await start({ bad: hostile({ log }) })
    expect((await gateway.request('logging/setLevel', { level: 'secret' })).error.code).toBe(-32602)
    expect((await gateway.request('logging/setLevel', { level: 'info' })).result).toEqual({})
    await until('it is told', () => noted(log).some(({ method }) => method === 'logging/setLevel'))
    expect(JSON.stringify(noted(log))).not.toContain('secret')
  })
})
