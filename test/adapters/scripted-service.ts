import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { selfSigned } from '../support/self-signed.ts'

/* A server that answers exactly the bytes of a script, to simulate faults. */

export interface Asked {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export type Script = (asked: Asked, socket: Socket, nth: number) => void

export interface ScriptedService {
  readonly url: string
  readonly port: number
  readonly asked: Asked[]
  script: Script
  close(): Promise<void>
}

/** Starts the server. It accepts one request per connection, because the adapters send only one. */
export async function scriptedService(script: Script, tls = false): Promise<ScriptedService> {
  const open = new Set<Socket>()
  const serve = (socket: Socket): void => {
    open.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => open.delete(socket))
    let received = Buffer.alloc(0)
    let known = false
    socket.on('data', (data) => {
      received = Buffer.concat([received, data])
      const asked = known ? undefined : parse(received)
      if (asked === undefined) return
      known = true
      service.asked.push(asked)
      service.script(asked, socket, service.asked.length)
    })
  }
  const server: Server = tls
    ? createTlsServer(
        { key: readFileSync(selfSigned.keyFile), cert: readFileSync(selfSigned.certFile) },
        serve,
      )
    : createServer(serve)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const service: ScriptedService = {
    url: `${tls ? 'https://localhost' : 'http://127.0.0.1'}:${port}`,
    port,
    asked: [],
    script,
    async close() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
  return service
}

function parse(received: Buffer): Asked | undefined {
  const end = received.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [first = '', ...lines] = received.subarray(0, end).toString('latin1').split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 1).trim(),
    ]),
  )
  const body = received.subarray(end + 4)
  if (body.length < Number(headers['content-length'] ?? 0)) return undefined
  const [method = '', path = ''] = first.split(' ')
  return { method, path, headers, body: body.toString('utf8') }
}

/** Sends a normal answer. */
export function reply(socket: Socket, status: number, body: unknown, headers: readonly string[] = []): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const lines = [
    `HTTP/1.1 ${status} Whatever`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(text)}`,
    ...headers,
  ]
  socket.end(`${lines.join('\r\n')}\r\n\r\n${text}`)
}

export const allowed = { decision: 'allow', reason: 'no rule matched', decision_id: 'dec_1', rule_name: null }
export const denied = {
  decision: 'deny',
  reason: 'no-egress',
  decision_id: 'dec_2',
  rule_name: 'no-egress',
  explanation: 'the side effect is `egress`',
}
export const held = {
  decision: 'require_approval',
  reason: 'ask-first',
  decision_id: 'dec_3',
  rule_name: 'ask-first',
  approval_id: 'apr_1',
}
