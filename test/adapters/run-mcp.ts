import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { gatewayFile, python } from './gateway-files.ts'
import { jsonLines } from '../support/json-lines.ts'
import { temporaryFolder } from '../stack/temporary-folder.ts'
import { until } from '../stack/until.ts'
import { emptyHome } from './run-hook.ts'

/* Starts the gateway as a client would, and exchanges messages with it line by line. */

export { gatewayFile, odd, python, type ServerEntry } from './gateway-files.ts'

// Tests read messages as untyped JSON, like a client.
// oxlint-disable-next-line typescript/no-explicit-any
export type Wire = any

export interface GatewayOptions {
  readonly servers?: Readonly<Record<string, unknown>>
  /** The text of the configuration file, instead of `servers`. */
  readonly config?: string
  readonly args?: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  /** Default: no capabilities. */
  readonly capabilities?: object
  /** The gateway is started by a shell. `child` is then the shell. */
  readonly shell?: boolean
  /** The client does not send `initialize` and `notifications/initialized`. */
  readonly bare?: boolean
}

export class Gateway {
  readonly child: ChildProcess
  /** All messages and lines that the gateway has written, in order. */
  readonly messages: Wire[] = []
  readonly lines: string[] = []
  readonly ended: Promise<number | string>
  stderr = ''
  #ids = 0

  constructor(options: GatewayOptions) {
    const file = join(temporaryFolder(), 'servers.json')
    writeFileSync(file, options.config ?? JSON.stringify({ mcpServers: options.servers ?? {} }))
    const args = ['-I', '-S', gatewayFile, '--config', file, ...(options.args ?? [])]
    // A shell gives background processes no standard input, so the input is passed through descriptor 3.
    const inShell = ['-c', 'exec 3<&0; "$@" <&3 & echo "pid $!" >&2; wait', 'sh', python, ...args]
    const [program, words] = options.shell === true ? ['sh', inShell] : [python, args]
    this.child = spawn(program, words, { env: { ...emptyHome(), ...options.env } })
    this.child.stdin?.on('error', () => {
      // The gateway may have ended.
    })
    if (this.child.stdout === null) throw new Error('no output')
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      this.lines.push(line)
      this.messages.push(JSON.parse(line))
    })
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text))
    this.ended = new Promise((resolve) => {
      this.child.once('close', (code, signal) => resolve(signal ?? code ?? 1))
    })
    running.add(this)
    void this.ended.then(() => running.delete(this))
  }

  write(line: string | Buffer): void {
    this.child.stdin?.write(Buffer.concat([Buffer.from(line), Buffer.from('\n')]))
  }

  send(message: object): void {
    this.write(JSON.stringify({ jsonrpc: '2.0', ...message }))
  }

  /** Sends a request and returns its id; `answer` waits for the response. */
  ask(method: string, params?: object, id: number | string = (this.#ids += 1)): number | string {
    this.send({ id, method, ...(params && { params }) })
    return id
  }

  async answer(id: number | string): Promise<Wire> {
    const found = (): Wire =>
      this.messages.find((each) => each.id === id && ('result' in each || 'error' in each))
    await until(`an answer to ${JSON.stringify(id)}: ${this.stderr}`, () => found() !== undefined)
    return found()
  }

  async request(method: string, params?: object, id?: number | string): Promise<Wire> {
    return this.answer(this.ask(method, params, id))
  }

  /** Calls a tool and returns its result. */
  async call(name: string, args: object = {}, meta?: object): Promise<Wire> {
    return (await this.request('tools/call', { name, arguments: args, ...(meta && { _meta: meta }) })).result
  }

  async tools(): Promise<Wire[]> {
    return (await this.request('tools/list')).result.tools
  }

  /** Notifications and requests with this method that the gateway has sent so far. */
  told(method: string): Wire[] {
    return this.messages.filter((each) => each.method === method)
  }

  async initialize(capabilities: object = {}, protocolVersion = '2025-11-25'): Promise<Wire> {
    const clientInfo = { name: 'tester', version: '1' }
    const answer = await this.request('initialize', { protocolVersion, capabilities, clientInfo }, 0)
    this.send({ method: 'notifications/initialized' })
    return answer
  }

  /** `endGateways` leaves this gateway to whoever closes it. */
  keep(): void {
    running.delete(this)
  }

  /** Closes the gateway's input and returns how it ended. */
  async close(): Promise<number | string> {
    this.child.stdin?.end()
    return this.ended
  }
}

const running = new Set<Gateway>()

/** Starts a gateway and, unless `bare` is true, initializes it. */
export async function startGateway(options: GatewayOptions = {}): Promise<Gateway> {
  const gateway = new Gateway(options)
  if (options.bare !== true) await gateway.initialize(options.capabilities)
  return gateway
}

/** For `afterEach`: ends all gateways that a test has left running. */
export async function endGateways(): Promise<void> {
  await Promise.all([...running].map((gateway) => gateway.close()))
}

/** The text of a tool's result. */
export const textOf = (result: Wire): string => result?.content?.[0]?.text ?? ''

/** The entries that the odd server wrote to its file `log`. */
export const noted = (log: string): Wire[] => (existsSync(log) ? jsonLines(log) : [])
export const logFile = (): string => join(temporaryFolder(), 'log')
