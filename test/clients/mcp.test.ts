import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, describe, expect } from '@jest/globals'
import { gatewayFile } from '../adapters/gateway-files.ts'
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
import { gatewayLog, installGateway, readable, through } from './product-gateway.ts'
import { installHook, type ServiceSettings } from './product-hook.ts'
import { runClient, startClient, type RunOptions } from './run-client.ts'
import type { Turn } from './script.ts'
import { sideBySide } from './side-by-side.ts'

/* The real clients with the gateway: their calls, the texts for their models, and the cleanup. */

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

/** A held call waits one second. */
const asked = (): ServiceSettings => ({ url: service.url, key: 'csk_test', wait: 1 })
const nothingLeft = (place: Place): Promise<void> =>
  until('nothing of it runs', () => processesOf(place).length === 0)
const options = (client: AgentClient, said: object = {}): Pick<RunOptions, 'setup' | 'afterwards'> => ({
  setup: (place) => {
    installGateway(client, place, { ...asked(), said })
  },
  afterwards: nothingLeft,
})

describe.each(clients)('%s', (_name, client) => {
  test('allowed, denied and held calls: the model reads the result, the rule, and the next step', async () => {
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
    const questions = service.asked.filter(
      ({ path, body }) => path === '/api/v1/authorize' && body.includes(word),
    )
    expect(questions.map(({ body }) => JSON.parse(body).tool_name)).toEqual(Array(3).fill('mcp__odd__echo'))
  })

  test('a client that ends during a call leaves no process, even if the server ignores the end', async () => {
    const started = await startClient(client, {
      script: [[through(client, 'odd__hang')]],
      ...options(client, { tools: ['hang'], stubborn: true }),
    })
    await until('the server works', () => readable(gatewayLog(started.place)).includes('"tools/call"'))
    started.signal('SIGTERM')
    // `ended` resolves after `afterwards` has waited for the client's processes.
    await started.ended
  })
})

const claude = clients.filter(([name]) => name === 'claude').map(([, client]) => client)[0] as AgentClient

describe.each(clients.filter(([name]) => name === 'claude' || name === 'codex'))(
  '%s, which sends a call’s id',
  (name, client) => {
    test('hook and gateway name the same call', async () => {
      const both = `BOTH-${name}`
      const run = await runClient(client, {
        script: [[through(client, 'odd__echo', { say: both })]],
        ...options(client),
        setup: (place) => {
          installHook(client, place, { url: service.url, key: 'csk_test' })
          installGateway(client, place, asked())
        },
      })
      expect(run.results[0]?.text).toContain(both)
      const [first, second] = service.asked
        .filter(({ path, body }) => path === '/api/v1/authorize' && body.includes(both))
        .map(({ body }) => JSON.parse(body))
      expect([first.tool_name, second.tool_name]).toEqual(['mcp__svc__odd__echo', 'mcp__odd__echo'])
      expect(first.tool_use_id).toBe(second.tool_use_id)
      expect(first.tool_input).toEqual(second.tool_input)
    })
  },
)

test('claude: a server’s question is cancelled if there is no user to ask', async () => {
  const params = { message: 'Your colour?', requestedSchema: { type: 'object', properties: {} } }
  const run = await runClient(claude, {
    script: [[through(claude, 'odd__ask', { id: 1, method: 'elicitation/create', params })]],
    ...options(claude, { tools: ['ask'] }),
  })
  expect(run.results[0]?.text).toContain('"action": "cancel"')
})

test('claude: a tool added later can be called', async () => {
  // Claude Code fetches the list of tools again by itself, some time after the notification.
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

const [, codex] = clients.find(([name]) => name === 'codex') ?? []
if (codex !== undefined)
  test('codex: the gateway answers before the limit, which progress does not extend', async () => {
    const text = readFileSync(gatewayFile, 'utf8')
    const longest = Number(/^MAX_WAIT = (\d+)/m.exec(text)?.[1])
    // Seconds: one question before the wait and one after it (20 each), and the last poll of the approval, which can take
    // 10 seconds longer.
    expect(20 + longest + 10 + 20).toBeLessThan(300)
    // The same with one fiftieth of both limits. The gateway's own limit wins over any setting.
    const folder = dirname(gatewayFile)
    const program = `import sys; sys.path.insert(0, ${JSON.stringify(folder)}); sys.dont_write_bytecode = True
import service_mcp; service_mcp.MAX_WAIT = 4.8; sys.exit(service_mcp.main(sys.argv[1:]))`
    const run = await runClient(codex, {
      script: [[through(codex, 'odd__echo', { say: 'RELEASE' })]],
      setup: (place) => {
        const own = { program: ['-c', program], patience: 8 }
        installGateway(codex, place, { ...asked(), wait: 600, ...own })
      },
      afterwards: nothingLeft,
    })
    expect(run.results[0]?.text).toContain('approval apr_1 is still pending')
  })
