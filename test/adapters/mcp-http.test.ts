import { spawn } from 'node:child_process'
import { describe, expect, test } from '@jest/globals'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { freePort } from '../../src/stack/ports.ts'
import { until } from '../stack/until.ts'
import { isCall, names, useHttpServers, type HttpServers } from './http-gateway.ts'
import { realServers } from './peers.ts'
import { textOf } from './run-mcp.ts'
import { denied, reply } from './scripted-service.ts'

/* Servers behind the gateway that are reached over streamable HTTP: calls and sessions. */

let service: HttpServers['service']
let server: HttpServers['server']
let start: HttpServers['start']
let calls: HttpServers['calls']
useHttpServers((started) => ({ service, server, start, calls } = started))

/** MCP's own example server, over streamable HTTP. */
async function everything(): Promise<{ url: string; close: () => void }> {
  const { command, args = [] } = (await realServers(temporaryFolder())).everything
  const port = await freePort()
  const words = args.map((word) => (word === 'stdio' ? 'streamableHttp' : word))
  const child = spawn(command, words, { env: { PORT: String(port) }, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text))
  await until('the server listens', () => said.includes(String(port)))
  return { url: `http://127.0.0.1:${port}/mcp`, close: () => child.kill('SIGKILL') }
}

test('a call with the credentials of its entry, the session and the version; the agent’s key goes nowhere', async () => {
  const gateway = await start(
    { headers: { Authorization: 'Bearer ${BOARD_TOKEN}' } },
    { BOARD_TOKEN: 'board-secret' },
  )
  expect(await names(gateway)).toEqual(['web__echo'])
  expect(JSON.parse(textOf(await gateway.call('web__echo', { a: 1 })))).toMatchObject({
    name: 'echo',
    arguments: { a: 1 },
    token: 'Bearer board-secret',
  })
  const [{ headers }] = calls() as [(typeof server.asked)[0]]
  expect(headers).toMatchObject({
    'mcp-session-id': 'session-1',
    'mcp-protocol-version': '2025-11-25',
    accept: 'application/json, text/event-stream',
  })
  expect(server.asked[0]?.headers['mcp-session-id']).toBeUndefined()
  expect(server.asked[1]?.message.method).toBe('notifications/initialized')
  expect(JSON.stringify(server.asked)).not.toContain('csk_test')
  expect(JSON.stringify(service.asked)).not.toContain('board-secret')
  await gateway.close()
  expect(server.asked.find(({ verb }) => verb === 'DELETE')).toMatchObject({
    headers: { 'mcp-session-id': 'session-1', authorization: 'Bearer board-secret' },
  })
  expect(gateway.stderr).not.toContain('board-secret')
})

test('the real server of the SDK: a call, progress, a resource, a prompt, and the end of its session', async () => {
  const real = await everything()
  try {
    const gateway = await start({ url: real.url })
    expect(await names(gateway)).toContain('web__echo')
    expect(textOf(await gateway.call('web__echo', { message: 'hello' }))).toBe('Echo: hello')
    const steps = { duration: 0.3, steps: 3 }
    const long = await gateway.call('web__trigger-long-running-operation', steps, { progressToken: 'p' })
    expect(textOf(long)).toContain('completed')
    expect(gateway.told('notifications/progress').length).toBeGreaterThan(0)
    const { resources } = (await gateway.request('resources/list')).result
    const { result } = await gateway.request('resources/read', { uri: resources[0].uri })
    expect(result.contents).toHaveLength(1)
    const { prompts } = (await gateway.request('prompts/list')).result
    expect((await gateway.request('prompts/get', { name: prompts[0].name })).result.messages).toBeDefined()
    await gateway.close()
    expect(gateway.stderr).toBe('')
  } finally {
    real.close()
  }
})

test('a denied call does not reach the server', async () => {
  service.script = (_asked, socket) => reply(socket, 200, denied)
  const gateway = await start({})
  await gateway.tools()
  expect(textOf(await gateway.call('web__echo'))).toContain('no-egress')
  expect(calls()).toEqual([])
})

describe('sessions', () => {
  test('a session that the server has ended is replaced, and the call is not sent twice by itself', async () => {
    let sessions = 0
    server.script = ({ verb, message, headers }, response) => {
      if (message?.method === 'initialize') {
        sessions += 1
        const result = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: {} }
        response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': `s-${sessions}` })
        response.end(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }))
        return true
      }
      if (headers['mcp-session-id'] !== 's-1' || verb !== 'POST' || message.method !== 'tools/call')
        return false
      response.writeHead(404).end()
      return true
    }
    const gateway = await start({})
    await gateway.tools()
    expect(textOf(await gateway.call('web__echo', { a: 1 }))).toBe(
      'countersign: server `web` has ended its session: a new one is opened, so call again',
    )
    await until('the new session has its tools', async () => (await names(gateway)).length === 1)
    expect(JSON.parse(textOf(await gateway.call('web__echo', { a: 2 })))).toMatchObject({
      arguments: { a: 2 },
    })
    expect(calls().map(({ headers }) => headers['mcp-session-id'])).toEqual(['s-1', 's-2'])
    expect(calls()[1]?.headers['mcp-protocol-version']).toBe('2025-06-18')
  })

  test('a server that is down at first is tried again', async () => {
    let tries = 0
    server.script = (_asked, response) => {
      tries += 1
      if (tries > 1) return false
      response.writeHead(503).end()
      return true
    }
    const gateway = await start({})
    await until('its tools are there', async () => (await names(gateway)).length === 1)
    expect(gateway.stderr).toContain('server `web` answers 503')
  })

  test('a call that the client gives up is cancelled at the server', async () => {
    server.script = (asked) => isCall(asked)
    const gateway = await start({})
    await gateway.tools()
    const id = gateway.ask('tools/call', { name: 'web__echo' })
    await until('the call arrives', () => calls().length === 1)
    gateway.send({ method: 'notifications/cancelled', params: { requestId: id } })
    const cancelled = () => server.asked.find(({ message }) => message?.method === 'notifications/cancelled')
    await until('it is cancelled', () => cancelled() !== undefined)
    expect(cancelled()?.message.params.requestId).toBe(calls()[0]?.message.id)
    await until('its outcome is reported', () => service.asked.some(({ path }) => path.endsWith('/observe')))
  })

  test('a call that takes longer than `timeout` ends with an error', async () => {
    server.script = (asked) => isCall(asked)
    const gateway = await start({ timeout: 50 })
    await gateway.tools()
    expect(textOf(await gateway.call('web__echo'))).toBe(
      'countersign: server `web` did not answer within 0.05 s',
    )
  })
})
