import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { endGateways, logFile, noted, odd, startGateway, textOf, type Wire } from './run-mcp.ts'
import { allowed, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* The gateway forwards only calls for which it asked the service, with exactly the same numbers. */

let service: ScriptedService
beforeAll(async () => {
  service = await scriptedService((_asked, socket) => reply(socket, 200, allowed))
})
beforeEach(() => {
  service.asked.length = 0
})
afterEach(endGateways)
afterAll(() => service.close())

const env = (): NodeJS.ProcessEnv => ({ SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' })

const extra = { leak: 'secret', _meta: { progressToken: 'p' } }

test.each<[string, string, object, object]>([
  ['a resource', 'resources/read', { uri: 'a://1', ...extra }, { uri: 'a://1' }],
  ['a resource to subscribe to', 'resources/subscribe', { uri: 'a://1', ...extra }, { uri: 'a://1' }],
  ['a resource to unsubscribe from', 'resources/unsubscribe', { uri: 'a://1', ...extra }, { uri: 'a://1' }],
  ['a prompt', 'prompts/get', { name: 'odd__greet', ...extra }, { name: 'greet' }],
  [
    'a prompt with arguments',
    'prompts/get',
    { name: 'odd__greet', arguments: { a: 'b' }, ...extra },
    { name: 'greet', arguments: { a: 'b' } },
  ],
  [
    'a call',
    'tools/call',
    { name: 'odd__echo', arguments: { a: 1 }, ...extra },
    { name: 'echo', arguments: { a: 1 } },
  ],
])(
  'for %s a server gets exactly the call that was asked about, and a progress token',
  async (_name, method, params, told) => {
    const log = logFile()
    const servers = { odd: odd({ resources: ['a://1'], prompts: ['greet'], log }) }
    const gateway = await startGateway({ servers, env: env() })
    await gateway.tools()
    await gateway.request('resources/list')
    await gateway.request(method, params)
    const heard = noted(log).filter((each: Wire) => each.method === method)
    expect(heard.map((each: Wire) => each.params)).toEqual([
      { ...told, _meta: { progressToken: expect.any(Number) } },
    ])
  },
)

describe('numbers', () => {
  const call = async (numbers: string, more: NodeJS.ProcessEnv = {}): Promise<Wire> => {
    const gateway = await startGateway({ servers: { odd: odd() }, env: { ...env(), ...more } })
    await gateway.tools()
    gateway.write(
      `{"jsonrpc":"2.0","id":"n","method":"tools/call","params":{"name":"odd__echo","arguments":{"a":[${numbers}]}}}`,
    )
    return (await gateway.answer('n')).result
  }

  test.each([
    '9007199254740993',
    '-9007199254740992',
    '9007199254740993.0',
    '1e22',
    '1e400',
    '1, {"b": -1e400}',
  ])('%s would be read differently by the service: blocked, in open mode too', async (number) => {
    for (const SERVICE_FAIL_MODE of ['closed', 'open']) {
      const result = await call(number, { SERVICE_FAIL_MODE })
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
  })
})

test('a gateway that cannot ask says so in its greeting, and blocks', async () => {
  const gateway = await startGateway({
    servers: { odd: odd() },
    env: { ...env(), SERVICE_API_KEY: '' },
    bare: true,
  })
  const { result } = await gateway.initialize()
  expect(result.instructions).toMatch(/^No call can be checked, .* SERVICE_API_KEY is not set/)
  await gateway.tools()
  expect((await gateway.call('odd__echo')).isError).toBe(true)
  const sound = await startGateway({ env: env(), bare: true })
  expect((await sound.initialize()).result.instructions).toMatch(/^Tools of several servers/)
})
