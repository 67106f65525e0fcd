import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { AnswerOf, BodyOf, ParamsOf, QueryOf, RouteKey } from '../api/routes/index.ts'
import type { Access } from './credentials.ts'
import { Failure, Refusal, type Detail } from './failure.ts'

/* The API over HTTP. Routes and their answers are typed by the API itself. */

export interface Asked<Key extends RouteKey> {
  readonly params?: ParamsOf<Key>
  readonly query?: QueryOf<Key>
  readonly body?: BodyOf<Key>
}

export interface Api {
  readonly server: string
  readonly keyId: string | null
  /** Throws a `Refusal` for every answer but a success. */
  call<Key extends RouteKey>(key: Key, asked?: Asked<Key>): Promise<AnswerOf<Key>>
  /** One file as a form. */
  upload(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<AnswerOf<'POST /files'>>
  /** The body of a stream, until the server or `signal` ends it. */
  stream(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>
}

/** A request waits at most a minute for a run. */
const patience = 90_000
const mostBytes = 256 * 1024 * 1024
/** A request may be sent again if it reads, or changes with a key. */
const attempts = 4
const longestWait = 30_000

export function createApi({ server, key, keyId }: Access): Api {
  const headers = { ...agent, authorization: `Bearer ${key}` }
  const send = async (method: string, path: string, body: unknown): Promise<unknown> => {
    const url = `${server}/api/v1${path}`
    const isKeyed = method === 'POST'
    const init = {
      method,
      headers: {
        ...headers,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(isKeyed ? { 'idempotency-key': randomUUID() } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    }
    return bodyOf(await repeated(url, init, method === 'GET' || isKeyed), url)
  }
  return {
    server,
    keyId,
    async call<Key extends RouteKey>(route: Key, { params, query, body }: Asked<Key> = {}) {
      const [method = 'GET', template = ''] = route.split(' ')
      const given = { ...(params as Readonly<Record<string, string>> | undefined) }
      const path = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(given[name] ?? ''))
      return (await send(method, `${path}${queryText(query)}`, body)) as AnswerOf<Key>
    },
    async upload(name, bytes) {
      const form = new FormData()
      form.set('file', new File([bytes], name))
      const url = `${server}/api/v1/files`
      const init = { method: 'POST', headers: { ...headers, 'idempotency-key': randomUUID() }, body: form }
      return (await bodyOf(await once(url, init), url)) as AnswerOf<'POST /files'>
    },
    async stream(path, signal) {
      const url = `${server}/api/v1${path}`
      const answer = await once(url, { headers: { ...headers, accept: 'text/event-stream' } }, signal)
      if (!answer.ok || answer.body === null) await bodyOf(answer, url)
      return answer.body as ReadableStream<Uint8Array>
    },
  }
}

const agent = { 'user-agent': 'countersign-cli' }

/** A request without a key, such as those of the login. */
export async function ask<T>(server: string, method: string, path: string, body?: unknown): Promise<T> {
  const url = `${server}${path}`
  const sent =
    body === undefined
      ? { headers: agent }
      : { headers: { ...agent, 'content-type': 'application/json' }, body: JSON.stringify(body) }
  return (await bodyOf(await once(url, { method, ...sent }), url)) as T
}

function queryText(query: unknown): string {
  const given = Object.entries({ ...(query as Readonly<Record<string, string | undefined>> | undefined) })
  const params = new URLSearchParams(
    given.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
  return params.size === 0 ? '' : `?${params.toString()}`
}

/** Sends again after a lost connection, and when the server asks for it. The key makes a change happen once. */
async function repeated(url: string, init: RequestInit, mayRepeat: boolean): Promise<Response> {
  for (let attempt = 1; ; attempt += 1) {
    const isLast = !mayRepeat || attempt === attempts
    try {
      const answer = await once(url, init)
      const wait = Number(answer.headers.get('retry-after') ?? Number.NaN) * 1_000
      if (isLast || answer.ok || !(wait <= longestWait)) return answer
      await answer.body?.cancel()
      await delay(wait)
    } catch (error) {
      if (isLast || !(error instanceof Unreachable) || !error.wasLost) throw error
      await delay(250 * 2 ** attempt)
    }
  }
}

class Unreachable extends Failure {
  /** The server was there before the connection broke. */
  readonly wasLost: boolean

  constructor(line: string, wasLost: boolean) {
    super(line)
    this.wasLost = wasLost
  }
}

async function once(url: string, init: RequestInit, signal?: AbortSignal): Promise<Response> {
  try {
    // A redirect could lead the key elsewhere.
    return await fetch(url, {
      ...init,
      redirect: 'manual',
      signal: signal ?? AbortSignal.timeout(patience),
    })
  } catch (error) {
    throw signal?.aborted === true ? (error as Error) : unreachable(url, error as Error)
  }
}

const lost: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET', 'ETIMEDOUT'])

function unreachable(url: string, error: Error): Unreachable {
  const { origin, hostname } = new URL(url)
  const cause = error.cause as (Error & { code?: string }) | undefined
  const code = cause?.code ?? ''
  if (code === 'ECONNREFUSED')
    return new Unreachable(
      `nothing answers at ${origin}: start the server there, or name another one (COUNTERSIGN_URL, or \`countersign login --server URL\`)`,
      false,
    )
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return new Unreachable(`the name \`${hostname}\` is not known: check the address of the server`, false)
  if (/CERT|SELF_SIGNED|UNABLE_TO/.test(code))
    return new Unreachable(
      `the certificate of ${origin} is not trusted (${code}): ask whoever operates it, or name its CA with NODE_EXTRA_CA_CERTS`,
      false,
    )
  if (error.name === 'TimeoutError')
    return new Unreachable(`${origin} has not answered for ${patience / 1_000} seconds: try again`, false)
  return new Unreachable(
    `the connection to ${origin} broke: ${cause?.message ?? error.message}`,
    lost.has(code),
  )
}

async function bodyOf(answer: Response, url: string): Promise<unknown> {
  if (answer.status >= 300 && answer.status < 400) {
    const to = answer.headers.get('location') ?? ''
    const base = URL.canParse(to, url) ? new URL(to, url).origin : to
    throw new Failure(`${new URL(url).origin} sends requests on to ${base}: name that address as the server`)
  }
  const text = await textOf(answer)
  const body = jsonOf(text)
  if (answer.ok && (text === '' || body !== undefined)) return body
  const said = body as (ErrorSaid & { error?: ErrorSaid }) | undefined
  // The endpoints of the sign-in have no `error` around it.
  const error = said?.error ?? said
  if (typeof error?.code !== 'string' || typeof error.message !== 'string')
    throw new Failure(
      `${new URL(url).origin} answered ${answer.status} without JSON: is it the address of a Countersign server?`,
    )
  const given = (Array.isArray(error.details) ? error.details : []) as readonly Detail[]
  const details = given.map(({ path, message }) => ({ path, message: inCommands(message) }))
  const id = answer.headers.get('x-request-id')
  throw refusalOf(url, answer.status, { code: error.code, message: inCommands(error.message), details, id })
}

/** What messages of the API advise, as a command line does it. */
const commands: readonly (readonly [RegExp, string])[] = [
  [/`GET \/tools`/g, '`countersign tools`'],
  [/give `source`: `agents`/g, 'add `--agent`'],
  [/`POST \/approvals\/(\w+)\/revise`/g, '`countersign revise $1 -p name=value`'],
  [/`POST \/organizations\/\w+\/release`/g, '`countersign release`'],
]
export const inCommands = (message: string): string =>
  commands.reduce((text, [call, command]) => text.replace(call, command), message)

interface ErrorSaid {
  readonly code?: unknown
  readonly message?: unknown
  readonly details?: unknown
}

async function textOf(answer: Response): Promise<string> {
  const decoder = new TextDecoder()
  let [text, bytes] = ['', 0]
  for await (const part of answer.body ?? []) {
    bytes += part.length
    if (bytes > mostBytes) throw new Failure('the answer of the server is too large: ask for less of it')
    text += decoder.decode(part, { stream: true })
  }
  return text + decoder.decode()
}

function jsonOf(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}

interface Said {
  readonly code: string
  readonly message: string
  readonly details: readonly Detail[]
  readonly id: string | null
}

const mostDetails = 50

function refusalOf(url: string, status: number, { code, message, details, id }: Said): Refusal {
  // A message names one mistake whole.
  const further = details.length === 1 && message.includes(details[0]?.message ?? '') ? [] : details
  const shown = further.slice(0, mostDetails).map(({ path, message: said }) => `  ${path}: ${said}`)
  const more = further.length - shown.length
  const lines = [
    message,
    ...shown,
    ...(more > 0 ? [`  and ${more} more`] : []),
    ...adviceOf(new URL(url).origin, code, message),
    ...(status >= 500 && id !== null ? [`the log of the server has it under the request id ${id}`] : []),
  ]
  return new Refusal(status, code, details, lines)
}

function adviceOf(origin: string, code: string, message: string): string[] {
  // The message says whom: no key of this person can help.
  if (message.includes(': ask ')) return []
  if (code === 'unauthenticated')
    return [
      process.env['COUNTERSIGN_API_KEY']
        ? 'the key in COUNTERSIGN_API_KEY is wrong, was revoked or has ended: set another one'
        : 'your login has ended or was revoked: run `countersign login`',
    ]
  if (code === 'missing_scope')
    return [
      `make a key with this scope at ${origin}/console/keys, or ask an owner of the organization for one`,
    ]
  if (code === 'insufficient_role') return ['ask an owner of the organization']
  if (code === 'not_found' && message.startsWith('no route answers'))
    return [
      'the server is older than this command line, or its address has a part too many: `countersign doctor` compares them',
    ]
  return []
}
