import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Duplex } from 'node:stream'
import { isIP } from 'node:net'
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import { randomUUID } from 'node:crypto'
import type { RequestHandler, Request, Response } from 'express'
import { ApiError, errorBody, statusOf } from './errors.ts'
import { limitUnread } from './body-bytes.ts'
import { isOwnHost, type MetricsEndpoint } from '../shared/own-hosts.ts'
import type { Metrics } from '../shared/metrics.ts'
import type { Context, Telling } from '../governance/context.ts'

/** If Node itself refuses a request, the answer has the format of all other errors. With `tls`, only TLS 1.3. */
export function createHttpServer(app: RequestListener, tls: TlsKeyPair | null = null): Server {
  const inFlight = new WeakMap<Duplex, ServerResponse>()
  const listener: RequestListener = (request, response) => {
    inFlight.set(request.socket, response)
    limitUnread(request, response)
    if (hostsOf(request) !== 1)
      refuse(
        response,
        new ApiError('bad_request', 'send one `Host` header'),
        requestId(request.headers['x-request-id']),
      )
    else app(request, response)
  }
  // Node's own answer to a request without `Host` has no body, and it ignores a second one. So the listener checks (RFC
  // 9112, section 3.2), for HTTP/1.0 too, because requests for other hosts are refused.
  const options = { requireHostHeader: false }
  const server =
    tls === null
      ? createServer(options, listener)
      : createTlsServer({ ...options, ...tls, minVersion: 'TLSv1.3' }, listener)
  // After a failed TLS handshake no answer can be sent, but Node reports a `clientError` too.
  server.prependListener('tlsClientError', (_error: Error, socket: Duplex) => {
    socket.destroy()
  })
  server.on('checkExpectation', (request, response) => {
    refuse(
      response,
      new ApiError('bad_request', '`Expect` may only be `100-continue`'),
      requestId(request.headers['x-request-id']),
    )
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

/** The rest of the request is not read, so the answer closes the connection. */
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

/** A request that could not be read has no response object. */
function rawAnswer(error: ApiError, id: string): string {
  const body = JSON.stringify(errorBody(error, id))
  const headers = Object.entries(headersOf(id, body)).map(([name, value]) => `${name}: ${value}\r\n`)
  const reason = error.code === 'too_large' ? 'Content Too Large' : 'Bad Request'
  return `HTTP/1.1 ${statusOf[error.code]} ${reason}\r\n${headers.join('')}\r\n${body}`
}

/**
 * No key is needed, so keep this port inside your network. A page in a browser of this network must not read it either,
 * so hosts are checked as on the port of the API.
 */
export function serveMetrics(metrics: Metrics, { host, port, names }: MetricsEndpoint): Promise<Server> {
  const own = new Set(names)
  const server = createServer((request, response) => {
    if (foreignHost(own, request) !== null) {
      response.writeHead(421).end('name this host in ALLOWED_HOSTS\n')
      return
    }
    if (request.method !== 'GET' || request.url?.split('?', 1)[0] !== '/metrics') {
      response.writeHead(404).end()
      return
    }
    metrics.text().then(
      (text) =>
        response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }).end(text),
      () => response.writeHead(500).end(),
    )
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => resolve(server))
  })
}

/**
 * Refuses requests for another host than this service (docs/decisions/0273), before all other parts of the application.
 */
export function ownHost({ config, sparseLog }: Pick<Context, 'config' | 'sparseLog'>): RequestHandler {
  const names = new Set(config.http.names)
  return (request, _response, next) => {
    const trusts = request.app.get('trust proxy fn') as (address: string, distance: number) => boolean
    const foreign = foreignHost(names, request, trusts(request.socket.remoteAddress ?? '', 0))
    if (foreign === null) return next()
    const host = foreign.slice(0, 100)
    sparseLog.warn('foreign host', { host }, 'a request was refused: ALLOWED_HOSTS does not name its host')
    next(misdirected(host))
  }
}

/**
 * The first host of the request that is not one of ours. A proxy that we trust may have replaced `Host` with its own
 * name for us: `X-Forwarded-Host` then has what the client sent. The first line of a request can also name a host.
 */
function foreignHost(
  names: ReadonlySet<string>,
  { headers, socket, url = '' }: IncomingMessage,
  isFromProxy = false,
): string | null {
  const reached = socket.localAddress
  const isForeign = (host: string): boolean => !isOwnHost(names, host, reached)
  const host = headers.host ?? ''
  if (isForeign(host)) return host
  if (!url.startsWith('/') && url !== '*') {
    const [, named = ''] = /^[a-z][a-z\d+.-]*:\/\/([^/?#]*)/i.exec(url) ?? []
    if (isForeign(named)) return named
  }
  const forwarded = isFromProxy ? headers['x-forwarded-host'] : undefined
  return forwarded === undefined
    ? null
    : (String(forwarded)
        .split(',')
        .map((each) => each.trim())
        .find(isForeign) ?? null)
}

const misdirected = (host: string): ApiError =>
  new ApiError(
    'misdirected_request',
    `\`${host}\` is not a name of this service: use the address in PUBLIC_URL, or ask the operator to add this host to ALLOWED_HOSTS`,
  )

/*
 * If one of TRUSTED_PROXY_HOSTS opened the connection, address and scheme of a client come from `X-Forwarded-For` and
 * `X-Forwarded-Proto`. Otherwise these headers are ignored.
 */

/**
 * Behind a trusted proxy, the last address in `X-Forwarded-For` that is none, or else the proxy's own. An IPv4 address
 * that is written as IPv6 is converted: `::ffff:192.0.2.1` becomes `192.0.2.1`.
 */
export function addressOf(request: Request): string | null {
  return readAddress(request.ip) ?? readAddress(request.socket.remoteAddress)
}

/** Also if a trusted proxy ends the TLS connection. */
export function schemeOf(request: Request): 'http' | 'https' {
  return request.protocol === 'https' ? 'https' : 'http'
}

/** Some proxies add the client's port. */
function readAddress(text: string | undefined): string | null {
  if (text === undefined) return null
  const [, bracketed, plain] = /^(?:\[([^\]]+)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+)$/.exec(text) ?? []
  const address = (bracketed ?? plain ?? text).toLowerCase().replace(/^::ffff:(?=\d+\.)/, '')
  return isIP(address) === 0 ? null : address
}

interface TlsKeyPair {
  readonly cert: string
  readonly key: string
}

/**
 * Throws if a file is unreadable or not PEM, or if the key does not match. The message names the variable, such as
 * TEMPORAL_TLS_CERT_FILE with the prefix `TEMPORAL_`.
 */
export function readTlsKeyPair(
  files: { readonly certFile: string; readonly keyFile: string },
  prefix: '' | 'TEMPORAL_' = '',
): TlsKeyPair {
  const [certName, keyName] = [`${prefix}TLS_CERT_FILE`, `${prefix}TLS_KEY_FILE`]
  const pair = { cert: read(certName, files.certFile), key: read(keyName, files.keyFile) }
  try {
    createSecureContext(pair)
  } catch (error) {
    throw new Error(
      `${certName} \`${files.certFile}\` and ${keyName} \`${files.keyFile}\` are not a PEM certificate with its key (${(error as Error).message})`,
      { cause: error },
    )
  }
  return pair
}

function read(name: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new Error(`${name} \`${path}\` cannot be read (${(error as NodeJS.ErrnoException).code})`, {
      cause: error,
    })
  }
}

/** A longer incoming `X-Request-Id` is replaced. */
export const longestRequestId = 128

/** The id is copied to logs and headers. */
const acceptable = new RegExp(`^[A-Za-z0-9._:/+=@-]{1,${longestRequestId}}$`)

export function requestId(incoming: string | string[] | undefined): string {
  return typeof incoming === 'string' && acceptable.test(incoming) ? incoming : randomUUID()
}

export const requestIdOf = (response: Response): string => String(response.getHeader('X-Request-Id'))

/** The field of `response.locals` with the pattern of the route, such as `/runs/{id}`. */
export const routeLocal = 'route'

/** A client can send any text as the method. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** Counts each request, and logs it at the level `debug`. */
export function observed({ log, metrics }: Telling): RequestHandler {
  const isLogged = log.isLevelEnabled('debug')
  return (request, response, next) => {
    const startedAt = performance.now()
    response.once('close', () => {
      const method = methods.has(request.method) ? request.method : 'other'
      const route = routeOf(response)
      const status = response.writableEnded ? String(response.statusCode) : 'closed by the client'
      const milliseconds = performance.now() - startedAt
      metrics.requests.inc({ method, route, status })
      metrics.requestSeconds.observe({ route }, milliseconds / 1_000)
      if (isLogged)
        log.debug(
          { request_id: requestIdOf(response), method, route, status, duration_ms: Math.round(milliseconds) },
          'request',
        )
    })
    next()
  }
}

/** `other` for an unknown path, for example. */
const routeOf = ({ locals }: Response): string => {
  const route: unknown = locals[routeLocal]
  return typeof route === 'string' ? route : 'other'
}
