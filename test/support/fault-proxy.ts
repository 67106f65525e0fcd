import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/**
 * A fault is what happens to one request on its way to a service:
 *
 * - `pass`: the request and its answer pass unchanged.
 * - `lose answer`: the service carries out the request, and the connection breaks before the answer.
 * - `cut`: the connection breaks, and the service never sees the request.
 * - `garble`: the service carries out the request, and the client gets HTML with the status 200.
 * - `fail after`: the service carries out the request, and the client gets the status 502.
 * - `slow`: the service carries out the request, and the answer comes in ten parts with pauses.
 * - `break off`: the service carries out the request, and the connection breaks in the middle of the answer.
 * - `{ lost }`: the service carries out the request, then the function `lost` is called, and the connection breaks.
 * - `{ status }`: the client gets this answer, and the service never sees the request.
 * - A function: it writes the answer, and the service never sees the request.
 */
export type Fault =
  | 'pass'
  | 'lose answer'
  | 'cut'
  | 'garble'
  | 'fail after'
  | 'slow'
  | 'break off'
  | { readonly lost: () => void }
  | { readonly status: number; readonly headers?: Record<string, string>; readonly body?: string }
  | ((response: ServerResponse) => void)

export interface FaultProxy {
  readonly url: string
  /** Chooses the fault of each request. The request waits until the fault is chosen. */
  choose: (method: string, path: string) => Fault | Promise<Fault>
  close(): Promise<void>
}

/** Starts a proxy between the service under test and an emulator. */
export async function startFaultProxy(target: string): Promise<FaultProxy> {
  const server = createServer((request, response) => {
    void relay(target, () => proxy.choose(request.method ?? '', request.url ?? ''), request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const proxy: FaultProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    choose: () => 'pass',
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => void server.close(() => resolve()))
    },
  }
  return proxy
}

/** Headers of the connection to the proxy. They say nothing to the service. */
const ofConnection = ['host', 'connection', 'content-length', 'transfer-encoding', 'accept-encoding']

const headersOf = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      typeof value === 'string' && !ofConnection.includes(name) ? [[name, value]] : [],
    ),
  )

async function relay(
  target: string,
  choose: () => Fault | Promise<Fault>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const fault = await choose()
  if (fault === 'cut') return void request.socket.destroy()
  if (typeof fault === 'function') return fault(response)
  if (typeof fault === 'object' && 'status' in fault) {
    const { status, headers, body = '{"message":"fault"}' } = fault
    return void response.writeHead(status, { ...json, ...headers }).end(body)
  }
  const answer = await fetch(`${target}${request.url}`, {
    method: request.method ?? 'GET',
    headers: headersOf(request),
    body: chunks.length === 0 ? null : Buffer.concat(chunks),
  })
  const text = await answer.text()
  if (typeof fault === 'object') fault.lost()
  if (fault === 'lose answer' || typeof fault === 'object') return void request.socket.destroy()
  if (fault === 'fail after') return void response.writeHead(502, json).end('{}')
  if (fault === 'garble') return void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>hello')
  const retryAfter = answer.headers.get('retry-after')
  const pause = retryAfter === null ? {} : { 'retry-after': retryAfter }
  const headers = { ...json, ...pause }
  const bytes = Buffer.from(text)
  if (fault === 'slow') return sendSlowly(response.writeHead(answer.status, headers), bytes)
  if (fault !== 'break off') return void response.writeHead(answer.status, headers).end(bytes)
  response.writeHead(answer.status, { ...headers, 'content-length': bytes.length })
  response.write(bytes.subarray(0, Math.floor(bytes.length / 2)), () => request.socket.destroy())
}

async function sendSlowly(response: ServerResponse, bytes: Buffer): Promise<void> {
  const length = Math.ceil(bytes.length / 10)
  for (let at = 0; at < bytes.length; at += length) {
    response.write(bytes.subarray(at, at + length))
    await delay(20)
  }
  response.end()
}

const json = { 'content-type': 'application/json' }
