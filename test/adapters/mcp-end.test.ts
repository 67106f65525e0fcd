import { readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { until } from '../stack/until.ts'
import { endGateways, logFile, noted, odd, startGateway, textOf, type Gateway } from './run-mcp.ts'
import { allowed, held, reply, scriptedService, type ScriptedService } from './scripted-service.ts'

/* However the gateway ends, no process of the gateway or of its servers remains, and no approval stays pending. */

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

/** Whether the process runs. A zombie does not count as running. */
function runs(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** Starts a gateway with a server that has its own helper processes. Returns the pids of all these processes. */
async function family(said: object = {}): Promise<{ gateway: Gateway; pids: number[] }> {
  const gateway = await startGateway({ servers: { odd: odd({ tools: ['family'], ...said }) }, env: env() })
  await gateway.tools()
  const pids = JSON.parse(textOf(await gateway.call('odd__family'))) as number[]
  expect(pids.map(runs)).toEqual([true, true, true])
  return { gateway, pids }
}

const endings: readonly [string, (gateway: Gateway) => void][] = [
  ['the end of its input', ({ child }) => child.stdin?.end()],
  ['SIGINT', ({ child }) => child.kill('SIGINT')],
  ['SIGTERM', ({ child }) => child.kill('SIGTERM')],
  ['SIGHUP', ({ child }) => child.kill('SIGHUP')],
]

test.each(endings)('%s: no process is left', async (_name, end) => {
  const { gateway, pids } = await family()
  end(gateway)
  expect(await gateway.ended).toBe(0)
  expect(pids.map(runs)).toEqual([false, false, false])
  expect(service.asked.at(-1)?.path).toBe('/api/v1/authorize/sessions/end')
})

test('a server that ignores everything is killed after two requests to end', async () => {
  const log = logFile()
  const { gateway, pids } = await family({ stubborn: true, log })
  const began = performance.now()
  gateway.child.kill('SIGINT')
  expect(await gateway.ended).toBe(0)
  expect(pids.map(runs)).toEqual([false, false, false])
  expect(noted(log)).toContainEqual({ input: 'ended' })
  expect(performance.now() - began).toBeGreaterThan(3900)
})

describe('killed itself', () => {
  test.each<[string, object]>([
    ['its servers end', {}],
    ['stubborn servers end too', { stubborn: true }],
  ])('%s', async (_name, said) => {
    const { gateway, pids } = await family(said)
    gateway.child.kill('SIGKILL')
    expect(await gateway.ended).toBe('SIGKILL')
    await until('they are gone', () => !pids.some(runs))
  })
})

test('a server that dies takes its helpers with it', async () => {
  const gateway = await startGateway({ servers: { odd: odd({ tools: ['family', 'crash'] }) }, env: env() })
  await gateway.tools()
  const pids = JSON.parse(textOf(await gateway.call('odd__family'))) as number[]
  await gateway.call('odd__crash')
  await until('they are gone', () => !pids.some(runs))
})

test('ends if its parent dies, even if its input stays open elsewhere', async () => {
  const servers = { odd: odd({ tools: ['family'] }) }
  const gateway = await startGateway({ servers, env: env(), shell: true })
  await gateway.tools()
  const pids = JSON.parse(textOf(await gateway.call('odd__family'))) as number[]
  const own = Number(/^pid (\d+)$/m.exec(gateway.stderr)?.[1])
  gateway.child.kill('SIGKILL')
  await until('all are gone', () => ![own, ...pids].some(runs))
})

test('a call that waits for an approver is withdrawn', async () => {
  service.script = (asked, socket) => {
    if (asked.path === '/api/v1/authorize') reply(socket, 200, held)
    else if (asked.method !== 'GET') reply(socket, 200, { ok: true })
  }
  const gateway = await startGateway({ servers: { odd: odd() }, env: env() })
  await gateway.tools()
  gateway.ask('tools/call', { name: 'odd__echo', _meta: { sessionId: 'the-client-s-own' } })
  await until('it waits', () => service.asked.some(({ method }) => method === 'GET'))
  await gateway.close()
  expect(service.asked.map(({ path }) => path)).toContain('/api/v1/authorize/approvals/apr_1/cancel')
  // The client's session continues, so the gateway must not report its end.
  expect(service.asked.map(({ path }) => path)).not.toContain('/api/v1/authorize/sessions/end')
})

test('a client that stops reading does not prevent its end', async () => {
  const gateway = await startGateway({ servers: { odd: odd({ tools: ['big'] }) }, env: env() })
  await gateway.tools()
  gateway.child.stdout?.pause()
  gateway.ask('tools/call', { name: 'odd__big' })
  await until('it has been asked about', () => service.asked.length > 0)
  gateway.child.kill('SIGTERM')
  const exited = new Promise((resolve) => gateway.child.once('exit', resolve))
  expect(await exited).toBe(0)
  gateway.child.stdout?.resume()
})
