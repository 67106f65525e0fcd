import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { selfSigned } from '../support/self-signed.ts'
import type { Wire } from './run-mcp.ts'

/* An MCP server over streamable HTTP, whose answers a test can replace. */

export interface HttpAsked {
  readonly verb: string
  readonly headers: IncomingHttpHeaders
  /** The message of a POST; null for other verbs. */
  readonly message: Wire
}

/** Answers a request itself, or returns false so that the server sends its usual answer. */
export type HttpScript = (asked: HttpAsked, response: ServerResponse) => boolean | void

export interface HttpUpstream {
  readonly url: string
  readonly asked: HttpAsked[]
  script: HttpScript
  close(): Promise<void>
}

export async function httpUpstream(tls = false): Promise<HttpUpstream> {
  const serve = async (verb: string, headers: IncomingHttpHeaders, body: Wire, response: ServerResponse) => {
    const asked = { verb, headers, message: body }
    upstream.asked.push(asked)
    if (upstream.script(asked, response) !== false) return
    if (verb !== 'POST' || body.id === undefined) {
      response.writeHead(verb === 'POST' ? 202 : verb === 'DELETE' ? 200 : 405).end()
      return
    }
    const result = usual(body, headers)
    const session = body.method === 'initialize' ? { 'mcp-session-id': 'session-1' } : {}
    response.writeHead(200, { 'content-type': 'application/json', ...session })
    // Written over several lines, which JSON allows.
    response.end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }, null, 2))
  }
  const listener: Parameters<typeof createServer>[1] = (request, response) => {
    const { method = '', headers } = request
    const body = method === 'POST' ? json(request) : Promise.resolve(null)
    body.then((read) => serve(method, headers, read, response)).catch(() => response.destroy())
  }
  const server = tls
    ? createTlsServer(
        { key: readFileSync(selfSigned.keyFile), cert: readFileSync(selfSigned.certFile) },
        listener,
      )
    : createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const upstream: HttpUpstream = {
    url: `${tls ? 'https://localhost' : 'http://127.0.0.1'}:${(server.address() as AddressInfo).port}/mcp`,
    asked: [],
    script: () => false,
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
  return upstream
}

function usual({ method, params }: Wire, headers: IncomingHttpHeaders): object {
  if (method === 'initialize') {
    const serverInfo = { name: 'scripted', version: '1' }
    return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo }
  }
  if (method === 'tools/list') return { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] }
  return { content: [{ type: 'text', text: JSON.stringify({ ...params, token: headers.authorization }) }] }
}

/** One server-sent event. */
export const event = (message: object | null, id?: string, more = ''): string =>
  `${id === undefined ? '' : `id: ${id}\n`}${more}data: ${message === null ? '' : JSON.stringify(message)}\n\n`
export const stream = { 'content-type': 'text/event-stream' }
