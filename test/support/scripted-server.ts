import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request that the server has received. */
export interface Arrived {
  readonly method: string
  /** The path with its query. */
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface Scripted {
  readonly status: number
  readonly headers?: Record<string, string>
  /** The body of the answer. A string is sent unchanged. Every other value is sent as JSON. */
  readonly body?: unknown
  /** Writes the body of the answer, in place of `body`. The function need not end the answer. */
  readonly write?: (response: ServerResponse) => void
}

/**
 * An HTTP server that plays a service. It answers each request with the result of `answer`, and records each request.
 */
export interface ScriptedServer {
  readonly url: string
  readonly arrived: Arrived[]
  answer: (request: Arrived) => Scripted | Promise<Scripted>
  close(): Promise<void>
}

export async function startScriptedServer(): Promise<ScriptedServer> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => void respond(request, Buffer.concat(chunks).toString(), response))
  })
  const respond = async (request: IncomingMessage, body: string, response: ServerResponse): Promise<void> => {
    const { method = '', url: path = '', headers } = request
    const arrived = { method, path, headers, body }
    scripted.arrived.push(arrived)
    const { status, headers: own = {}, body: content, write } = await scripted.answer(arrived)
    const text = typeof content === 'string' ? content : JSON.stringify(content)
    response.writeHead(status, { 'content-type': 'application/json', ...own })
    if (write === undefined) response.end(text)
    else write(response)
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const scripted: ScriptedServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrived: [],
    answer: () => ({ status: 404, body: {} }),
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => void server.close(() => resolve()))
    },
  }
  return scripted
}
