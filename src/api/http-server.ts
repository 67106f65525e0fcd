import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Duplex } from 'node:stream'
import { ApiError, errorBody, statusOf } from './errors.ts'
import { limitUnread } from './refused-body.ts'
import { requestId } from './request-id.ts'
import type { TlsKeyPair } from './tls.ts'

/**
 * Creates an HTTP server in front of `app`. If Node itself refuses a request, the answer has the format of all other
 * errors. It has the header `X-Request-Id` and a JSON body with `bad_request` or `too_large`. If `tls` is given, the
 * server speaks only TLS 1.3.
 */
export function createHttpServer(app: RequestListener, tls: TlsKeyPair | null = null): Server {
  const inFlight = new WeakMap<Duplex, ServerResponse>()
  const listener: RequestListener = (request, response) => {
    inFlight.set(request.socket, response)
    limitUnread(request, response)
    if (hostsOf(request) !== 1) refuse(response, notOneHost, requestId(request.headers['x-request-id']))
    else app(request, response)
  }
  // Node's own answer to a request without `Host` would have no body, and Node ignores a second `Host`. So Node's check
  // is off, and the listener above checks the header (RFC 9112, section 3.2). It does so for HTTP/1.0 too, because the
  // application refuses requests for other hosts.
  const options = { requireHostHeader: false }
  const server =
    tls === null
      ? createServer(options, listener)
      : createTlsServer({ ...options, ...tls, minVersion: 'TLSv1.3' }, listener)
  // After a failed TLS handshake no answer can be sent. But Node reports the failure as a `clientError` too, and the
  // listener below would send an answer. So this listener runs first and destroys the socket.
  server.prependListener('tlsClientError', (_error: Error, socket: Duplex) => {
    socket.destroy()
  })
  server.on('checkExpectation', (request, response) => {
    refuse(response, unknownExpectation, requestId(request.headers['x-request-id']))
  })
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const response = inFlight.get(socket)
    // If an answer has begun, no error can be sent any more.
    const hasBegun = response !== undefined && response.headersSent && !response.writableEnded
    if (!socket.writable || error.code === 'ECONNRESET' || hasBegun) socket.destroy()
    else
      socket.end(rawAnswer(whatIsWrong(error.code), requestId(undefined)), () => {
        socket.destroy()
      })
  })
  return server
}

const notOneHost = new ApiError('bad_request', 'send one `Host` header')
const unknownExpectation = new ApiError('bad_request', '`Expect` may only be `100-continue`')

function hostsOf({ rawHeaders }: IncomingMessage): number {
  let found = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    if (name.length === 4 && name.toLowerCase() === 'host') found += 1
  }
  return found
}

function whatIsWrong(code: string | undefined): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW')
    return new ApiError('too_large', 'the address and headers are too large: send fewer or shorter ones')
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW')
    return new ApiError('too_large', 'the chunk extensions are too large: send none')
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new ApiError('bad_request', 'the whole request did not arrive in time: send it again')
  return new ApiError('bad_request', 'this is not a valid HTTP request')
}

/**
 * Returns the headers of an error answer of this module. The rest of the request is not read, so the answer closes the
 * connection.
 */
function headersOf(id: string, body: string): Record<string, string> {
  return {
    'X-Request-Id': id,
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store',
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
  }
}

function refuse(response: ServerResponse, error: ApiError, id: string): void {
  const body = JSON.stringify(errorBody(error, id))
  response.writeHead(statusOf[error.code], headersOf(id, body)).end(body)
}

/**
 * Returns a whole HTTP answer as text. A request that could not be read has no response object, so the text is written
 * to the socket.
 */
function rawAnswer(error: ApiError, id: string): string {
  const body = JSON.stringify(errorBody(error, id))
  const headers = Object.entries(headersOf(id, body)).map(([name, value]) => `${name}: ${value}\r\n`)
  const reason = error.code === 'too_large' ? 'Content Too Large' : 'Bad Request'
  return `HTTP/1.1 ${statusOf[error.code]} ${reason}\r\n${headers.join('')}\r\n${body}`
}
