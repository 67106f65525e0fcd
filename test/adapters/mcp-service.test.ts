import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, test, afterEach } from '@jest/globals'
import { agentWorld, type AgentWorld } from '../api/agents/agent.ts'
import { addKey } from '../api/fixtures.ts'
import { startTestServer, type TestServer } from '../api/server.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { httpSessions, type HttpSessions, type SendToClient, type SessionEnd } from './http-sessions.ts'
import { realServers, sdkOne, sdkTwo, conformanceSuite, type Sdk, type SdkClient } from './peers.ts'
import { gatewayFile, odd, python, textOf, Gateway, type Wire } from './run-mcp.ts'
import type { ScriptedService } from './scripted-service.ts'
import { conformingServer } from './upstreams/conforming.ts'
import { useService } from './use-service.ts'

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
afterEach(() => Promise.all(open.splice(0).map((client) => client.close())))

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

const pendingApproval = async (text: string): Promise<string> => {
  let found: { id: string } | undefined
  await until(`an approval of ${text}`, async () => {
    const { body } = await server.call(world.admin.key, 'GET', '/approvals?status=pending')
    found = body.data.find((each: { tool: string | null }) => JSON.stringify(each).includes(text))
    return found !== undefined
  })
  return found?.id ?? ''
}

describe.each(sdks)('%s', (_name, load, options) => {
  let plain: Connected
  let patient: Connected
  beforeAll(async () => {
    ;[plain, patient] = await Promise.all([connect(load, options), connect(load, options, { wait: 60 })])
    open.length = 0
    await Promise.all([plain, patient].map(({ client }) => client.listTools()))
  })
  afterAll(() => Promise.all([plain, patient].map(({ client }) => client.close())))

  test('sees the tools of both servers, and gets an allowed call’s own result', async () => {
    const { client, call, folder } = plain
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
    const { content } = await call('everything__get-tiny-image')
    expect(content.map(({ type }: Wire) => type)).toContain('image')
    await client.ping()
  })

  test('denied: an error of the tool that names the rule, also for a tool with an output schema', async () => {
    const { client, call, folder } = plain
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
    const { client } = plain
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
    const { call, folder } = plain
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
    const { call } = patient
    const told: Wire[] = []
    const args = { duration: 1, steps: 4 }
    const result = call('everything__trigger-long-running-operation', args, {
      onprogress: (each: Wire) => told.push(each),
      resetTimeoutOnProgress: true,
    })
    await world.decide(await pendingApproval('trigger-long-running-operation'), 'approve')
    expect(textOf(await result)).toContain('Long running operation completed')
    expect(told[0]).toMatchObject({ message: expect.stringMatching(/^waiting for approval apr_/) })
    const values = told.map(({ progress }) => progress)
    // The SDK drops the last progress messages if the answer follows immediately.
    expect(values.slice(0, 3)).toEqual([0.001, 1, 2])
  })

  test('given up while held: nothing waits any more', async () => {
    const { call } = patient
    const patience = new AbortController()
    const given = call('files__write_file', { path: '/given-up', content: 'y' }, { signal: patience.signal })
    const rejected = expect(given).rejects.toThrow()
    const id = await pendingApproval('/given-up')
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

describe('conformance', () => {
  /*
   * MCP's own conformance suite, on a server that is reached over HTTP, and on the gateway in front of that server. The
   * suite speaks HTTP only, so a bridge starts a gateway for each session of the suite.
   */

  let service: ScriptedService
  let direct: HttpSessions
  let through: HttpSessions
  useService((started) => (service = started))
  beforeAll(async () => {
    direct = await httpSessions(conformingServer)
    through = await httpSessions(bridge)
  })
  afterAll(() => Promise.all([direct.close(), through.close()]))

  /** The gateway's names for tools and prompts of the server `it`. */
  const inside = (name: string): string => `it__${name}`
  const outside = ({ name, ...rest }: Wire): Wire => ({ ...rest, name: name.replace(inside(''), '') })

  /**
   * The gateway of the latest session. The suite never says that a session is over. A new session therefore ends the
   * gateway of the session before.
   */
  let last: Gateway | undefined

  /** A gateway for one session. Messages of the gateway are sent as part of the client's latest unanswered request. */
  function bridge(send: SendToClient): SessionEnd {
    const gateway = new Gateway({
      servers: { it: { type: 'http', url: direct.url } },
      env: { SERVICE_API_URL: service.url, SERVICE_API_KEY: 'csk_test' },
    })
    void last?.close()
    last = gateway
    const open = new Map<string | number, string>()
    createInterface({ input: gateway.child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      const message: Wire = JSON.parse(line)
      if (message.method !== undefined) return send(message, [...open.keys()].at(-1))
      open.delete(message.id)
      const { result } = message
      for (const kind of ['tools', 'prompts']) if (result?.[kind]) result[kind] = result[kind].map(outside)
      send(message)
    })
    return {
      take(message) {
        const { id, method, params } = message
        if (id !== undefined && method !== undefined) open.set(id, method)
        if (method === 'tools/call' || method === 'prompts/get') params.name = inside(params.name)
        if (params?.ref?.type === 'ref/prompt') params.ref.name = inside(params.ref.name)
        gateway.send(message)
      },
      end: () => void gateway.close(),
    }
  }

  /** The result of each check, by scenario and id. */
  async function checks(url: string): Promise<Record<string, string>> {
    const folder = temporaryFolder()
    const words = [await conformanceSuite(), 'server', '--url', url, '--output-dir', folder]
    await new Promise((resolve) => {
      execFile(process.execPath, words, { cwd: folder }, resolve)
    })
    const found: Record<string, string> = {}
    for (const name of readdirSync(folder).toSorted()) {
      const scenario = name.replace(/-\d{4}-.*$/, '')
      for (const { id, status, errorMessage } of JSON.parse(
        readFileSync(join(folder, name, 'checks.json'), 'utf8'),
      ) as Wire[])
        found[`${scenario}: ${id}`] = errorMessage === undefined ? status : `${status}: ${errorMessage}`
    }
    return found
  }

  test('the gateway passes what the server behind it passes', async () => {
    const [ofServer, ofGateway] = [await checks(direct.url), await checks(through.url)]
    expect(new Set(Object.values(ofServer))).toEqual(new Set(['SUCCESS']))
    expect(Object.keys(ofServer).length).toBeGreaterThanOrEqual(40)
    expect(ofGateway).toEqual(ofServer)
  })
})
