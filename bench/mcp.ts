import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, createServer, request as httpRequest, type RequestListener } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { gatewayFile, odd, python } from '../test/adapters/gateway-files.ts'
import { machine, median, say } from './support/report.ts'

const rounds = 2_000
const allowed = JSON.stringify({
  decision: 'allow',
  decision_id: 'dec_1',
  reason: 'no rule matched',
  labels: [],
})

/**
 * Measures how much longer an allowed call takes through the gateway. Compares the call with the sum of two times: a
 * direct call of the same MCP server, and one authorize request over an open connection. The call may take at most 1 ms
 * more than this sum (median). A stand-in takes the place of the service and allows every call immediately, because
 * other benchmarks measure the service. Fails if the gateway did not ask about a call, or if the MCP server did not run
 * the call.
 */
export async function run(): Promise<void> {
  say(`mcp: medians of ${rounds} interleaved rounds; ${machine()}`)
  let asked = 0
  const answer: RequestListener = (request, response) => {
    request.resume().once('end', () => {
      if (request.url?.endsWith('/authorize') === true) asked += 1
      response.setHeader('Content-Type', 'application/json').end(allowed)
    })
  }
  const service = createServer(answer).listen(0, '127.0.0.1')
  await once(service, 'listening')
  const { port } = service.address() as AddressInfo
  const folder = mkdtempSync(join(tmpdir(), 'countersign-bench-'))
  const config = join(folder, 'servers.json')
  const server = odd({ tools: ['echo'] })
  writeFileSync(config, JSON.stringify({ mcpServers: { odd: server } }))
  const env = {
    PATH: process.env['PATH'],
    SERVICE_API_URL: `http://127.0.0.1:${port}`,
    SERVICE_API_KEY: 'csk_bench',
  }
  const direct = new Peer(
    spawn(server.command, server.args ?? [], { env, stdio: ['pipe', 'pipe', 'inherit'] }),
  )
  const args = ['-I', '-S', gatewayFile, '--config', config]
  const gateway = new Peer(spawn(python, args, { env, stdio: ['pipe', 'pipe', 'inherit'] }))
  for (const peer of [direct, gateway]) await peer.greet()
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const [alone, question, through]: [number[], number[], number[]] = [[], [], []]
  for (let round = -100; round < rounds; round += 1) {
    const times = [
      await timed(() => direct.echo('echo')),
      await timed(() => authorize(port, agent)),
      await timed(() => gateway.echo('odd__echo')),
    ]
    if (round < 0) continue
    for (const [index, list] of [alone, question, through].entries()) list.push(times[index] ?? 0)
  }
  if (asked !== 2 * (rounds + 100))
    throw new Error(`${asked} calls were asked about, expected ${2 * (rounds + 100)}`)
  const [a, q, t] = [median(alone), median(question), median(through)]
  const added = t - a - q
  say(
    `  through the gateway ${t.toFixed(2)} ms, directly ${a.toFixed(2)} ms, one authorize ${q.toFixed(2)} ms: ` +
      `${added.toFixed(2)} ms more (goal at most 1 ms: ${added <= 1 ? 'holds' : 'MISSED'})`,
  )
  agent.destroy()
  await Promise.all([direct.close(), gateway.close()])
  service.closeAllConnections()
  service.close()
  rmSync(folder, { recursive: true })
}

async function timed(work: () => Promise<void>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}

/** Sends the same question as the gateway, over a connection that stays open. */
function authorize(port: number, agent: Agent): Promise<void> {
  const body = JSON.stringify({
    agent: { name: 'bench', kind: 'mcp' },
    session_id: 'mcp-0123456789abcdef0123456789abcdef',
    tool_name: 'mcp__odd__echo',
    tool_input: { text: 'hi' },
    tool_use_id: 'mcp-0123456789abcdef0123456789abcdef-1',
  })
  return new Promise((resolve, reject) => {
    const options = { port, agent, method: 'POST', path: '/api/v1/authorize', host: '127.0.0.1' }
    const request = httpRequest(options, (response) => {
      response.resume().once('end', resolve)
    })
    request.once('error', reject)
    request.end(body)
  })
}

/** An MCP client that talks to one process. Each message is one line of JSON. */
class Peer {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (line: string) => void>()
  #id = 0

  constructor(child: ChildProcess) {
    this.#child = child
    if (child.stdout === null) throw new Error('no output')
    createInterface({ input: child.stdout }).on('line', (line) => {
      const { id } = JSON.parse(line) as { id?: number }
      if (id !== undefined) this.#waiting.get(id)?.(line)
    })
  }

  #ask(method: string, params: object): Promise<string> {
    const id = (this.#id += 1)
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      this.#child.stdin?.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    })
  }

  async greet(): Promise<void> {
    const clientInfo = { name: 'bench', version: '1' }
    await this.#ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo })
    this.#child.stdin?.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    await this.#ask('tools/list', {})
  }

  async echo(name: string): Promise<void> {
    const line = await this.#ask('tools/call', { name, arguments: { text: 'hi' } })
    if (!line.includes('\\"text\\": \\"hi\\"')) throw new Error(`the call did not run: ${line}`)
  }

  async close(): Promise<void> {
    this.#child.stdin?.end()
    await once(this.#child, 'close')
  }
}
