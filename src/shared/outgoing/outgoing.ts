import { type LookupFunction, isIP } from 'node:net'
import { fetch as sendRequest, Agent, type Response as Answered, buildConnector } from 'undici'
import { isTooLarge, mostValues } from '../json-size.ts'
import { isNamed, portOf, type NamedHost, bareHost, isPublicAddress } from './hosts.ts'
import { lookup as systemLookup } from 'node:dns'
import { millisecondsSince, presentMoment } from '../moment.ts'

export type OutgoingProblem =
  'host_refused' | 'redirect_refused' | 'unreachable' | 'timeout' | 'answer_too_large' | 'connection_lost'

/** No usable answer came. The message shows only the host of the address. */
export class OutgoingError extends Error {
  override readonly name = 'OutgoingError'
  readonly problem: OutgoingProblem
  /** Whether bytes of the request may have reached the service. */
  readonly mayHaveArrived: boolean
  constructor(problem: OutgoingProblem, message: string, mayHaveArrived: boolean, cause?: unknown) {
    super(message, { cause })
    this.problem = problem
    this.mayHaveArrived = mayHaveArrived
  }
}

/** As the global `fetch`, which the client libraries of services expect. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>

export interface Bounds {
  /** And paths below them: `https://git.acme.com/api/v3`. */
  readonly addresses: readonly string[]
  /** For the whole exchange. */
  readonly milliseconds: number
  /** The body after unpacking. */
  readonly bytes: number
  /** Only status and headers are used. Of the body, at most `bytes` are read, for at most one second. */
  readonly dropsBody?: true
  /** For a service whose redirects lead to another resource than the one that rules have decided about. */
  readonly followsRedirects?: false
  readonly signal?: AbortSignal
  /** Right before each request. If it throws, nothing is sent. */
  readonly beforeSending?: () => void
  /** Before the rest of a large answer is read. Resolves when there is memory; rejects with the signal's reason. */
  readonly reserve?: (bytes: number, signal: AbortSignal) => Promise<{ release(): void }>
}

/** Read without reserving memory. */
const smallBytes = 256 * 1024
/** In memory at the same time: the chunks, one buffer, and two texts. */
const copiesOfAnswer = 4

/** All requests to services that an organization connects. */
export interface Outgoing {
  /** Why no request may go there. Does not look up the host: a private address is refused on sending. */
  refusalOf(address: string): string | null
  /**
   * For the requests with one credential:
   * - Only to the addresses in `bounds`; redirects only there, and only for GET and HEAD.
   * - Resolves when the whole body has been read, or dropped (`dropsBody`). JSON is then small enough to be parsed.
   * - Throws OutgoingError, or the error of the aborted signal in `bounds`.
   */
  fetchWithin(bounds: Bounds): Fetch
  close(): Promise<void>
}

/** Every unreachable host gives the same error, or callers learn names of the operator's network. */
export function createOutgoing(options: {
  readonly hosts: readonly NamedHost[]
  readonly lookup?: LookupFunction
  readonly onUnreachable?: OnUnreachable
}): Outgoing {
  const { onUnreachable = () => {} } = options
  const agent = createGuardedAgent(options)
  const refusalOf = (address: string): string | null => {
    const url = URL.canParse(address) ? new URL(address) : null
    if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:'))
      return 'it is no https address'
    if (url.protocol === 'https:' || isNamed(options.hosts, url.hostname, portOf(url))) return null
    return `it is plain http: use https, or let the operator name \`${url.host}\` in CONNECTION_HOSTS`
  }
  return {
    refusalOf,
    fetchWithin: (bounds) => (input, init) =>
      exchange({ agent, refusalOf, onUnreachable }, bounds, new Request(input, init)),
    close: () => agent.destroy(),
  }
}

interface Sent {
  readonly method: string
  readonly headers: Headers
  readonly body: Uint8Array<ArrayBuffer> | null
}

type OnUnreachable = (host: string, why: string) => void

interface Exchanging {
  readonly agent: Agent
  readonly refusalOf: Outgoing['refusalOf']
  readonly onUnreachable: OnUnreachable
}

async function exchange(
  { agent, refusalOf, onUnreachable }: Exchanging,
  bounds: Bounds,
  request: Request,
): Promise<Response> {
  const limit = AbortSignal.timeout(bounds.milliseconds)
  const signals = [limit, request.signal, ...(bounds.signal === undefined ? [] : [bounds.signal])]
  const signal = AbortSignal.any(signals)
  const body = request.body === null ? null : new Uint8Array(await request.arrayBuffer())
  const sent: Sent = { method: request.method, headers: request.headers, body }
  let url = new URL(request.url)
  for (let redirects = 0; ; redirects += 1) {
    requireWithin(bounds.addresses, refusalOf, url)
    bounds.beforeSending?.()
    try {
      const answer = await sendRequest(url.href, {
        method: sent.method,
        headers: [...sent.headers],
        body: sent.body,
        redirect: 'manual',
        dispatcher: agent,
        signal,
      })
      const next = redirectOf(answer, url)
      if (next === null && bounds.dropsBody === true) return await dropBody(answer, bounds.bytes)
      if (next === null) return await readWhole(answer, url, bounds, signal)
      await answer.body?.cancel()
      if (redirects === 3 || !mayFollow(sent, bounds, next))
        throw new OutgoingError('redirect_refused', `\`${url.host}\` redirects to another place`, true)
      url = next
    } catch (error) {
      throw bounds.signal?.aborted === true && !limit.aborted
        ? error
        : problemOf(error, url, limit, onUnreachable)
    }
  }
}

function requireWithin(addresses: readonly string[], refusalOf: Outgoing['refusalOf'], url: URL): void {
  const why = refusalOf(url.href)
  if (why !== null) throw new OutgoingError('host_refused', `\`${url.host}\` is refused: ${why}`, false)
  if (addresses.some((address) => isBelow(address, url))) return
  throw new OutgoingError('host_refused', `\`${url.host}\` is not an address of this connection`, false)
}

/** The same origin, and the same path or one below. */
function isBelow(address: string, url: URL): boolean {
  const base = new URL(address)
  if (base.origin !== url.origin) return false
  const path = base.pathname.replace(/\/+$/, '')
  return url.pathname === path || url.pathname.startsWith(`${path}/`)
}

function redirectOf({ status, headers }: Answered, from: URL): URL | null {
  const location = headers.get('location')
  if (status < 300 || status > 399 || status === 304 || location === null) return null
  return URL.canParse(location, from.href) ? new URL(location, from) : new URL('about:blank')
}

/** Another method may already have had its effect. */
const mayFollow = ({ method }: Sent, { addresses, followsRedirects }: Bounds, next: URL): boolean =>
  followsRedirects !== false &&
  (method === 'GET' || method === 'HEAD') &&
  addresses.some((address) => isBelow(address, next))

async function readWhole(answer: Answered, url: URL, bounds: Bounds, signal: AbortSignal): Promise<Response> {
  const { status, statusText } = answer
  const headers = new Headers([...answer.headers].filter(([name]) => !describesWire.test(name)))
  const chunks: Uint8Array[] = []
  let total = 0
  let held: { release(): void } | undefined
  try {
    for await (const chunk of answer.body ?? []) {
      total += (chunk as Uint8Array).length
      if (total > bounds.bytes) throw tooLarge(url, `is larger than ${bounds.bytes} bytes`)
      if (total > smallBytes)
        held ??= await bounds.reserve?.(copiesOfAnswer * expectedBytes(answer, bounds), signal)
      chunks.push(chunk as Uint8Array)
    }
    const body = Buffer.concat(chunks)
    if (isJson(body) && isTooLarge(body.toString('latin1')))
      throw tooLarge(url, `has more than ${mostValues} values`)
    const hasNoBody = status === 204 || status === 205 || status === 304
    return new Response(hasNoBody ? null : body, { status, statusText, headers })
  } finally {
    held?.release()
  }
}

/** If an unneeded body ends within this time, the connection stays open for the next request. */
const dropMilliseconds = 1_000

async function dropBody({ status, statusText, headers, body }: Answered, bytes: number): Promise<Response> {
  const reader = body?.getReader()
  const late = setTimeout(() => void reader?.cancel().catch(() => undefined), dropMilliseconds)
  try {
    for (let total = 0; reader !== undefined && total <= bytes;) {
      const { done, value } = await reader.read()
      if (done) break
      total += (value as Uint8Array).length
    }
  } catch {
    // Only the status, which has arrived, is needed.
  } finally {
    clearTimeout(late)
    await reader?.cancel().catch(() => undefined)
  }
  return new Response(null, { status, statusText, headers: [...headers] })
}

const tooLarge = (url: URL, why: string): OutgoingError =>
  new OutgoingError('answer_too_large', `the answer of \`${url.host}\` ${why}`, true)

/** At most, by the headers and `bounds`. */
function expectedBytes({ headers }: Answered, { bytes }: Bounds): number {
  const declared = headers.get('content-encoding') === null ? headers.get('content-length') : null
  return declared !== null && /^\d{1,12}$/.test(declared) ? Math.min(Number(declared), bytes) : bytes
}

/** A client library may parse such a body even if its content type is not JSON. */
function isJson(body: Buffer): boolean {
  const first = body.find((byte) => !whitespace.has(byte))
  return first === 0x5b || first === 0x7b
}

const whitespace: ReadonlySet<number> = new Set([0x09, 0x0a, 0x0d, 0x20])

/** They describe the bytes that arrive; the body is unpacked here. */
const describesWire = /^(?:content-encoding|content-length|transfer-encoding)$/

function problemOf(
  error: unknown,
  url: URL,
  limit: AbortSignal,
  onUnreachable: OnUnreachable,
): OutgoingError {
  if (error instanceof OutgoingError) return error
  const causes = causesOf(error)
  if (causes.some((cause) => cause instanceof RefusedAddress || cause instanceof ConnectFailed)) {
    onUnreachable(url.host, whyUnreachable(causes))
    const advice = 'check the address, or ask the operator, whose log has the cause'
    return new OutgoingError('unreachable', `\`${url.host}\` cannot be reached: ${advice}`, false, error)
  }
  if (limit.aborted)
    return new OutgoingError('timeout', `\`${url.host}\` did not answer in time`, true, error)
  return new OutgoingError('connection_lost', `the connection to \`${url.host}\` was lost`, true, error)
}

function whyUnreachable(causes: readonly unknown[]): string {
  if (causes.some((cause) => cause instanceof RefusedAddress))
    return 'its address is not public; to allow it, name the host in CONNECTION_HOSTS'
  const codes = causes.map((cause) => (cause as { code?: unknown } | null)?.code)
  const code = codes.findLast((each): each is string => typeof each === 'string')
  return code ?? 'no connection was made in time'
}

/** Outermost first. `fetch` puts the original error into `cause`, and each tried address has its own. */
function causesOf(error: unknown): readonly unknown[] {
  const causes = [error]
  for (const cause of causes) {
    if (causes.length > 10) break
    if (cause instanceof AggregateError) causes.push(...cause.errors.slice(0, 4))
    const inner = (cause as { cause?: unknown } | null | undefined)?.cause
    if (inner !== undefined && inner !== null) causes.push(inner)
  }
  return causes
}

/** Private or loopback, and not named by the operator. */
export class RefusedAddress extends Error {
  override readonly name = 'RefusedAddress'
  readonly code = 'ERR_REFUSED_ADDRESS'
}

/** No byte of a request has left. */
export class ConnectFailed extends Error {
  override readonly name = 'ConnectFailed'
}

export interface GuardedAgentOptions {
  readonly hosts: readonly NamedHost[]
  /** For tests. */
  readonly lookup?: LookupFunction
}

const connectMilliseconds = 10_000
const idleMilliseconds = 10_000

/**
 * Only to public addresses and to hosts that the operator named. The name server is asked once for each connection, and
 * the checked address is the one connected to, so a name whose address changes between two look-ups gains nothing.
 */
export function createGuardedAgent({ hosts, lookup = systemLookup }: GuardedAgentOptions): Agent {
  // HTTP/1.1 alone: on a shared connection, an aborted request would leave the others in doubt.
  const common = { timeout: connectMilliseconds, allowH2: false } as const
  const anywhere = buildConnector({ ...common, lookup })
  const inPublic = buildConnector({ ...common, lookup: publicOnly(lookup) })
  return new Agent({
    connect(options, done) {
      const started = presentMoment()
      const callback: buildConnector.Callback = (...[error, socket]) => {
        if (error !== null) return done(new ConnectFailed('', { cause: error }), null)
        // In a process that was stopped for a while, this can run before the timer that should have ended the attempt.
        if (millisecondsSince(started) <= connectMilliseconds) return done(null, socket)
        socket.destroy()
        done(new ConnectFailed('', { cause: new Error('the connection took too long') }), null)
      }
      const host = bareHost(options.hostname)
      const port = Number(options.port || (options.protocol === 'http:' ? 80 : 443))
      if (isNamed(hosts, host, port)) return anywhere(options, callback)
      // An IP address is never looked up, so `publicOnly` would not see it.
      if (isIP(host) !== 0 && !isPublicAddress(host)) return callback(new RefusedAddress(refusal), null)
      return inPublic(options, callback)
    },
    allowH2: false,
    keepAliveTimeout: idleMilliseconds,
    keepAliveMaxTimeout: idleMilliseconds,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: 32 * 1024,
  })
}

const refusal = 'the address is not public'

/** If any of its addresses is not public. */
function publicOnly(lookup: LookupFunction): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, '', 0)
      const addresses = Array.isArray(found) ? found : []
      if (addresses.length === 0 || addresses.some(({ address }) => !isPublicAddress(address)))
        return callback(new RefusedAddress(refusal), '', 0)
      if (options.all === true) return callback(null, addresses)
      const [first] = addresses
      return callback(null, first?.address ?? '', first?.family)
    })
}
