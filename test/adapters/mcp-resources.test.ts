import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { endGateways, logFile, noted, odd, startGateway, type Gateway } from './run-mcp.ts'
import { allowed, denied, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* Resources and prompts of the servers behind the gateway. */

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
const start = (servers: Record<string, unknown>): Promise<Gateway> => startGateway({ servers, env: env() })
const questions = () =>
  service.asked.filter(({ path }) => path === '/api/v1/authorize').map(({ body }) => JSON.parse(body))

const servers = {
  one: odd({ resources: ['a://1', 'same://x'], prompts: ['greet'], says: 'one' }),
  two: odd({ resources: ['b://2', 'same://x'], hidden: ['h://9'], prompts: ['greet'], says: 'two' }),
}

test('resources and prompts are listed together, and asked about', async () => {
  const gateway = await start(servers)
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
  expect(await gateway.request('resources/read', { uri: 'z://' })).toMatchObject({
    error: { code: -32002 },
  })
  expect(await gateway.request('prompts/get', { name: 'one__none' })).toMatchObject({
    error: { code: -32602 },
  })
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
