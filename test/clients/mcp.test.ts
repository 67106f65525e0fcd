import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, describe, expect } from '@jest/globals'
import { gatewayFile, odd, python } from '../adapters/run-mcp.ts'
import {
  allowed,
  denied,
  held,
  reply,
  scriptedService,
  type ScriptedService,
} from '../adapters/scripted-service.ts'
import { until } from '../stack/until.ts'
import type { AgentClient, Place } from './client.ts'
import { clients } from './clients.ts'
import { ensureClients } from './install.ts'
import { processesOf } from './processes.ts'
import { installHook, serviceEnv } from './product-hook.ts'
import { runClient, startClient, type RunOptions } from './run-client.ts'
import type { ToolCall, Turn } from './script.ts'
import { sideBySide } from './side-by-side.ts'

/* The real clients through the gateway: what they call, what their models read, and what is left of it. */

let service: ScriptedService
const test = sideBySide(3, async () => {
  await ensureClients()
  service = await scriptedService(({ path, body }, socket) => {
    if (path === '/api/v1/authorize')
      reply(socket, 200, body.includes('FORBIDDEN') ? denied : body.includes('RELEASE') ? held : allowed)
    else if (path.includes('/approvals/')) reply(socket, 200, { approval_id: 'apr_1', status: 'pending' })
    else reply(socket, 200, { ok: true })
  })
})
afterAll(() => service.close())

/** Gives the client the gateway under the name `svc`, in front of the odd server. */
function configure(client: AgentClient, { home }: Place, said: object): void {
  const servers = join(home, 'servers.json')
  const log = { log: join(home, 'log') }
  writeFileSync(servers, JSON.stringify({ mcpServers: { odd: odd({ ...log, ...said }) } }))
  const args = ['-I', '-S', gatewayFile, '--config', servers]
  const env = serviceEnv({ url: service.url, key: 'csk_test', wait: 1 })
  const entry = { command: python, args, env }
  if (client.name === 'claude') {
    writeFileSync(join(home, '.claude.json'), JSON.stringify({ mcpServers: { svc: entry } }))
    const settings = join(home, '.claude', 'settings.json')
    const known = JSON.parse(readable(settings) || '{}') as object
    writeFileSync(settings, JSON.stringify({ ...known, permissions: { allow: ['mcp__svc'] } }))
  } else if (client.name === 'codex') {
    const pairs = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
    const lines = [
      '[mcp_servers.svc]',
      `command = ${JSON.stringify(python)}`,
      `args = ${JSON.stringify(args)}`,
    ]
    const all = [...lines, `env = { ${pairs.join(', ')} }`]
    appendFileSync(join(home, '.codex', 'config.toml'), `${all.join('\n')}\n`)
  } else if (client.name === 'copilot') {
    const svc = { type: 'local', ...entry, tools: ['*'] }
    writeFileSync(join(home, '.copilot', 'mcp-config.json'), JSON.stringify({ mcpServers: { svc } }))
  } else {
    const settings = join(home, '.gemini', 'settings.json')
    const known = JSON.parse(readFileSync(settings, 'utf8')) as object
    writeFileSync(settings, JSON.stringify({ ...known, mcpServers: { svc: { ...entry, trust: true } } }))
  }
}
const readable = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
const through = (client: AgentClient, tool: string, input: ToolCall['input'] = {}): ToolCall => ({
  tool: { claude: 'mcp__svc__', codex: 'mcp__svc.', gemini: 'mcp_svc_', copilot: 'svc-' }[client.name] + tool,
  input,
})
const nothingLeft = (place: Place): Promise<void> =>
  until('nothing of it runs', () => processesOf(place).length === 0)
const options = (client: AgentClient, said: object = {}): Pick<RunOptions, 'setup' | 'afterwards'> => ({
  setup: (place) => {
    configure(client, place, said)
  },
  afterwards: nothingLeft,
})

describe.each(clients)('%s', (_name, client) => {
  test('allowed, denied and held calls: the model reads the result, the rule, and what to do', async () => {
    const word = `for-${client.name}`
    const run = await runClient(client, {
      script: [
        [through(client, 'odd__echo', { word, say: 'HARMLESS' })],
        [through(client, 'odd__echo', { word, say: 'FORBIDDEN' })],
        [through(client, 'odd__echo', { word, say: 'RELEASE' })],
      ],
      ...options(client),
    })
    expect(run.exit).toBe(0)
    const [ran, blocked, waits] = run.results.map(({ text }) => text)
    expect(ran).toContain('HARMLESS')
    expect(blocked).toContain('blocked by rule `no-egress`')
    expect(waits).toMatch(/approval apr_1 is still pending; have it approved, then call again/)
    const asked = service.asked.filter(
      ({ path, body }) => path === '/api/v1/authorize' && body.includes(word),
    )
    expect(asked.map(({ body }) => JSON.parse(body).tool_name)).toEqual(Array(3).fill('mcp__odd__echo'))
  })

  test('ended in the middle of a call, nothing is left, though the server ignores it', async () => {
    const started = await startClient(client, {
      script: [[through(client, 'odd__hang')]],
      ...options(client, { tools: ['hang'], stubborn: true }),
    })
    const log = join(started.place.home, 'log')
    await until('the server works', () => readable(log).includes('"tools/call"'))
    started.signal('SIGTERM')
    // `afterwards` waits for its processes.
    await started.ended
  })
})

const claude = clients.filter(([name]) => name === 'claude').map(([, client]) => client)[0] as AgentClient

describe.each(clients.filter(([name]) => name === 'claude' || name === 'codex'))(
  '%s, which tells a call’s id',
  (name, client) => {
    test('hook and gateway name the same call', async () => {
      const both = `BOTH-${name}`
      const run = await runClient(client, {
        script: [[through(client, 'odd__echo', { say: both })]],
        ...options(client),
        setup: (place) => {
          installHook(client, place, { url: service.url, key: 'csk_test' })
          configure(client, place, {})
        },
      })
      expect(run.results[0]?.text).toContain(both)
      const asked = service.asked
        .filter(({ path, body }) => path === '/api/v1/authorize' && body.includes(both))
        .map(({ body }) => JSON.parse(body))
      expect(asked.map(({ tool_name }) => tool_name)).toEqual(['mcp__svc__odd__echo', 'mcp__odd__echo'])
      expect(asked[0].tool_use_id).toBe(asked[1].tool_use_id)
      expect(asked[0].tool_input).toEqual(asked[1].tool_input)
    })
  },
)

test('claude: without anybody to ask, a server’s question is cancelled', async () => {
  const params = { message: 'Your colour?', requestedSchema: { type: 'object', properties: {} } }
  const run = await runClient(claude, {
    script: [[through(claude, 'odd__ask', { id: 1, method: 'elicitation/create', params })]],
    ...options(claude, { tools: ['ask'] }),
  })
  expect(run.results[0]?.text).toContain('"action": "cancel"')
})

test('claude: a tool that comes late can be called', async () => {
  // Claude Code lists the tools again by itself, some time after it was told.
  const again: Turn = async (read) => {
    await delay(100)
    return read.at(-1)?.text.includes('LATE') === true ? [] : [through(claude, 'odd__grown', { say: 'LATE' })]
  }
  const run = await runClient(claude, {
    script: [[through(claude, 'odd__grow')], ...Array<Turn>(30).fill(again)],
    ...options(claude, { tools: ['grow'] }),
  })
  expect(run.results.at(-1)?.text).toContain('LATE')
})
