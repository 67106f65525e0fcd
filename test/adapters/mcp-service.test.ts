import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { addKey } from '../api/fixtures.ts'
import { agentWorld, type AgentWorld } from '../api/agents/agent.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { until } from '../stack/until.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { realServers, sdkOne, sdkTwo, type Sdk, type SdkClient } from './peers.ts'
import { gatewayFile, odd, python, textOf, type Wire } from './run-mcp.ts'

/* Tests the gateway between the real service, real servers and the clients of the TypeScript SDK. */

let server: TestServer
let world: AgentWorld
let key: string
beforeAll(async () => {
  server = await startTestServer()
  world = await agentWorld(server)
  key = (await addKey(server.context, world.organizationId, world.member.userId, ['agents:authorize'])).secret
  const rule = (body: object) => world.change('POST', '/rules', { applies_to: ['agents'], ...body })
  await rule({ name: 'no-sums', verdict: 'deny', tools: ['mcp__everything__get-sum'] })
  const secret = { param: 'path', operator: 'contains', value: 'secret' }
  await rule({ name: 'no-secrets', verdict: 'deny', tools: ['mcp__files__*'], params: [secret] })
  await rule({ name: 'ask-before-writing', verdict: 'require_approval', tools: ['mcp__files__write_file'] })
  const slow = ['mcp__everything__trigger-long-running-operation']
  await rule({ name: 'ask-before-waiting', verdict: 'require_approval', tools: slow })
  await rule({ name: 'no-prompts', verdict: 'deny', tools: ['mcp__everything__prompts_get'] })
  const tainted = { verdict: 'deny', side_effects: ['egress'], labels: { all_of: ['internal'] } }
  await rule({ name: 'nothing-outside', ...tainted })
}, 600_000)
afterAll(() => server.close())

const open: SdkClient[] = []
afterEach(async () => {
  await Promise.all(open.splice(0).map((client) => client.close()))
})

interface Connected {
  readonly client: SdkClient
  readonly folder: string
  /** Calls a tool; `options` as in the SDK. */
  call(name: string, args?: object, options?: object): Promise<Wire>
}

const sdks: readonly (readonly [string, () => Promise<Sdk>, object])[] = [
  ['SDK v1', sdkOne, {}],
  ['SDK v2', sdkTwo, {}],
  ['SDK v2, which tries 2026-07-28 first', sdkTwo, { versionNegotiation: { mode: 'auto' } }],
]

async function connect(
  load: () => Promise<Sdk>,
  options: object,
  more: { wait?: number; capabilities?: object; prepare?: (client: SdkClient, sdk: Sdk) => void } = {},
): Promise<Connected> {
  const sdk = await load()
  const folder = join(temporaryFolder(), 'shared')
  mkdirSync(folder)
  writeFileSync(join(folder, 'plan.txt'), 'the plan')
  const servers = { ...(await realServers(folder)), mail: odd({ tools: ['send_report'] }) }
  const config = join(folder, '..', 'servers.json')
  writeFileSync(config, JSON.stringify({ mcpServers: servers }))
  const { capabilities = {}, wait = 0 } = more
  const client = new sdk.Client({ name: 'sdk-tester', version: '1' }, { capabilities, ...options })
  more.prepare?.(client, sdk)
  await client.connect(
    new sdk.Transport({
      command: python,
      args: ['-I', '-S', gatewayFile, '--config', config],
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        SERVICE_API_URL: server.base,
        SERVICE_API_KEY: key,
        SERVICE_APPROVAL_WAIT: String(wait),
      },
      stderr: 'ignore',
    }),
  )
  open.push(client)
  return {
    client,
    folder,
    call: (name, args = {}, given = {}) => client.callTool({ name, arguments: args }, ...sdk.options(given)),
  }
}

const pendingApproval = async (tool: string): Promise<string> => {
  let found: { id: string } | undefined
  await until(`an approval of ${tool}`, async () => {
    const { body } = await server.call(world.admin.key, 'GET', '/approvals?status=pending')
    found = body.data.find((each: { tool: string | null }) => JSON.stringify(each).includes(tool))
    return found !== undefined
  })
  return found?.id ?? ''
}

describe.each(sdks)('%s', (_name, load, options) => {
  test('sees the tools of both servers, and gets an allowed call’s own result', async () => {
    const { client, call, folder } = await connect(load, options)
    const { tools } = await client.listTools()
    const names = tools.map(({ name }: { name: string }) => name)
    expect(names).toEqual(expect.arrayContaining(['everything__echo', 'files__read_text_file']))
    expect(tools.every((tool: Wire) => tool.execution === undefined)).toBe(true)
    expect(await call('everything__echo', { message: 'hi' })).toMatchObject({
      content: [{ type: 'text', text: 'Echo: hi' }],
    })
    // This tool has an output schema, and the client checks the result against it.
    expect(await call('files__read_text_file', { path: join(folder, 'plan.txt') })).toMatchObject({
      structuredContent: { content: 'the plan' },
    })
    const weather = await call('everything__get-structured-content', { location: 'Chicago' })
    expect(weather.structuredContent).toHaveProperty('temperature')
    expect((await call('everything__get-tiny-image')).content.map(({ type }: Wire) => type)).toContain(
      'image',
    )
    await client.ping()
  })

  test('denied: an error of the tool that names the rule, also for a tool with an output schema', async () => {
    const { client, call, folder } = await connect(load, options)
    await client.listTools()
    expect(await call('everything__get-sum', { a: 1, b: 2 })).toMatchObject({
      isError: true,
      content: [{ type: 'text', text: expect.stringContaining('blocked by rule `no-sums`') }],
    })
    const secret = await call('files__read_text_file', { path: join(folder, 'secret.txt') })
    expect(secret.isError).toBe(true)
    expect(textOf(secret)).toContain('no-secrets')
    const prompt = client.getPrompt({ name: 'everything__simple-prompt' })
    await expect(prompt).rejects.toThrow('blocked by rule `no-prompts`')
  })

  test('resources, prompts and completions of the servers', async () => {
    const { client } = await connect(load, options)
    const { resources } = await client.listResources()
    expect(resources.length).toBeGreaterThan(3)
    const { contents } = await client.readResource({ uri: resources[0].uri })
    expect(contents[0].text.length).toBeGreaterThan(10)
    // This resource is listed only as a template.
    const dynamic = await client.readResource({ uri: 'demo://resource/dynamic/text/3' })
    expect(dynamic.contents[0].text).toContain('3')
    await expect(client.readResource({ uri: 'nowhere://x' })).rejects.toThrow()
    const { prompts } = await client.listPrompts()
    expect(prompts.map(({ name }: Wire) => name)).toContain('everything__completable-prompt')
    const { completion } = await client.complete({
      ref: { type: 'ref/prompt', name: 'everything__completable-prompt' },
      argument: { name: 'department', value: 'E' },
    })
    expect(completion.values).toEqual(['Engineering'])
  })

  test('held: if not approved in time the answer says what to do; after approval the identical call passes once', async () => {
    const { client, call, folder } = await connect(load, options)
    await client.listTools()
    const path = join(folder, 'made.txt')
    const write = (content = 'x') => call('files__write_file', { path, content })
    const first = await write()
    expect(first.isError).toBe(true)
    const [, id = ''] = /approval (apr_\w+) is still pending/.exec(textOf(first)) ?? []
    expect(textOf(await write())).toContain(id)
    await world.decide(id, 'approve')
    expect(textOf(await write('other'))).toContain('is still pending')
    expect(existsSync(path)).toBe(false)
    expect((await write()).isError).toBeUndefined()
    expect(readFileSync(path, 'utf8')).toBe('x')
    expect(textOf(await write())).toContain('is still pending')
  })

  test('held and approved in time: progress rises from the wait into the server’s own', async () => {
    const { client, call } = await connect(load, options, { wait: 60 })
    await client.listTools()
    const told: Wire[] = []
    const args = { duration: 0.3, steps: 3 }
    const result = call('everything__trigger-long-running-operation', args, {
      onprogress: (each: Wire) => told.push(each),
      resetTimeoutOnProgress: true,
    })
    await world.decide(await pendingApproval('trigger-long-running-operation'), 'approve')
    expect(textOf(await result)).toContain('Long running operation completed')
    expect(told[0]).toMatchObject({ message: expect.stringMatching(/^waiting for approval apr_/) })
    const values = told.map(({ progress }) => progress)
    // The SDK drops the last progress message if the answer follows immediately.
    expect(values.slice(0, 3)).toEqual([0.001, 1, 2])
  })

  test('given up while held: nothing waits any more', async () => {
    const { client, call } = await connect(load, options, { wait: 60 })
    await client.listTools()
    const patience = new AbortController()
    const call1 = call('files__write_file', { path: '/x', content: 'y' }, { signal: patience.signal })
    const rejected = expect(call1).rejects.toThrow()
    const id = await pendingApproval('mcp__files__write_file')
    patience.abort('enough')
    await rejected
    await until('it is withdrawn', async () => {
      const { body } = await server.call(world.admin.key, 'GET', `/approvals/${id}`)
      return body.status === 'cancelled'
    })
  })

  test('both servers get the client’s roots, although both ask with the same id', async () => {
    const other = join(temporaryFolder(), 'other')
    mkdirSync(other)
    let asked = 0
    const { client, call } = await connect(load, options, {
      capabilities: { roots: { listChanged: true } },
      prepare: (each, sdk) => {
        each.setRequestHandler(sdk.named('roots/list'), () => {
          asked += 1
          return { roots: [{ uri: `file://${other}`, name: 'other' }] }
        })
      },
    })
    await client.listTools()
    await until('both have asked', () => asked >= 2)
    await until('files has heard', async () =>
      textOf(await call('files__list_allowed_directories')).includes(other),
    )
  })

  test('elicitation reaches the client, and its answer the server', async () => {
    const questions: Wire[] = []
    const { client, call } = await connect(load, options, {
      capabilities: { elicitation: { form: {} } },
      prepare: (each, sdk) => {
        each.setRequestHandler(sdk.named('elicitation/create'), (request) => {
          questions.push(request.params)
          return { action: 'decline' }
        })
      },
    })
    // The server offers this tool to capable clients only after the initialization.
    await until('it is offered', async () =>
      JSON.stringify(await client.listTools()).includes('everything__trigger-elicitation-request'),
    )
    const result = await call('everything__trigger-elicitation-request')
    expect(questions[0].message).toMatch(/^\[everything\] /)
    expect(JSON.stringify(result)).toMatch(/decline/)
  })

  test('data from one server does not leave through another', async () => {
    const { client, call, folder } = await connect(load, options)
    await client.listTools()
    expect((await call('mail__send_report')).isError).toBeUndefined()
    expect((await call('files__read_text_file', { path: join(folder, 'plan.txt') })).isError).toBeUndefined()
    const sent = await call('mail__send_report')
    expect(sent.isError).toBe(true)
    expect(textOf(sent)).toContain('nothing-outside')
  })
})

test('a call that hook and gateway both see needs one approval', async () => {
  const { client, folder } = await connect(sdkOne, {}, { wait: 0 })
  await client.listTools()
  const path = join(folder, 'shared-by-both.txt')
  const use = 'toolu_both'
  const hook = {
    agent: { name: 'claude-code', kind: 'coding_agent' },
    session_id: 'hook-and-gateway',
    tool_name: 'mcp__svc__files__write_file',
    tool_input: { path, content: 'z' },
    tool_use_id: use,
  }
  await world.change('POST', '/rules', {
    name: 'ask-hook-too',
    applies_to: ['agents'],
    verdict: 'require_approval',
    tools: ['mcp__svc__files__write_file'],
  })
  const ask = async () => (await server.call(key, 'POST', '/authorize', hook)).body
  const { approval_id } = await ask()
  await world.decide(approval_id, 'approve')
  expect(await ask()).toMatchObject({ decision: 'allow' })
  const params = {
    name: 'files__write_file',
    arguments: hook.tool_input,
    _meta: { 'claudecode/toolUseId': use },
  }
  expect((await client.callTool(params)).isError).toBeUndefined()
  expect(readFileSync(path, 'utf8')).toBe('z')
})

test('the session shows its questions and ends with its client; a revoked one is refused', async () => {
  const { client, call } = await connect(sdkOne, {})
  await client.listTools()
  await call('everything__echo', { message: 'hi' })
  const find = async () => {
    const { body } = await server.call(world.admin.key, 'GET', '/agent-sessions')
    const mine = body.data.filter(({ agent }: Wire) => agent.name === 'sdk-tester')
    return mine.find(({ status }: Wire) => status !== 'ended')
  }
  const session = await find()
  expect(session).toMatchObject({ agent: { kind: 'mcp' }, status: 'live', unapproved_calls: 0 })
  await server.call(world.admin.key, 'POST', `/agent-sessions/${session.id}/revoke`, {})
  const refused = await call('everything__echo', { message: 'hi' })
  expect(refused.isError).toBe(true)
  expect(textOf(refused)).toContain('revoked')
})
