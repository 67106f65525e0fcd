import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { sdkServerTransport } from './peers.ts'
import type { Wire } from './run-mcp.ts'

/** The other side of one session. It receives the client's messages, and is told when the session ends. */
export interface SessionEnd {
  take(message: Wire): void
  end(): void
}

/**
 * Sends a message to the client of a session. `related` is the id of the client's request to which the message belongs.
 */
export type SendToClient = (message: Wire, related?: string | number) => void

export interface HttpSessions {
  readonly url: string
  close(): Promise<void>
}

/** Serves MCP over streamable HTTP with the SDK's own transport. `open` begins each session. */
export async function httpSessions(open: (send: SendToClient) => SessionEnd): Promise<HttpSessions> {
  const Transport = await sdkServerTransport()
  const sessions = new Map<string, { handle: Handle; over: () => void }>()
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy())
  })
  const serve: Handle = async (request, response) => {
    const known = sessions.get(String(request.headers['mcp-session-id']))
    if (known !== undefined) return known.handle(request, response)
    if (request.method !== 'POST') return void response.writeHead(404).end()
    const { port } = server.address() as AddressInfo
    const transport = new Transport({
      sessionIdGenerator: randomUUID,
      enableDnsRebindingProtection: true,
      allowedHosts: [`127.0.0.1:${port}`],
      onsessioninitialized: (id) => sessions.set(id, session),
    })
    const other = open((message, related) => {
      const to = related === undefined ? {} : { relatedRequestId: related }
      // The client may have disconnected.
      transport.send(message, to).catch(() => {})
    })
    const session = {
      handle: async (each: IncomingMessage, answer: ServerResponse) =>
        transport.handleRequest(each, answer, each.method === 'POST' ? await json(each) : undefined),
      over: () => other.end(),
    }
    Object.assign(transport, {
      onmessage: (message: Wire) => other.take(message),
      onclose: () => other.end(),
    })
    await transport.start()
    await session.handle(request, response)
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    async close() {
      for (const { over } of sessions.values()) over()
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

type Handle = (request: IncomingMessage, response: ServerResponse) => Promise<void>
