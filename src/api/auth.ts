import { AsyncLocalStorage } from 'node:async_hooks'
import type { Request, Response } from 'express'
import { betterAuth } from 'better-auth'
import { publicBase, type Config } from '../shared/config.ts'
import type { Context, Telling } from '../governance/context.ts'
import { isDuplicate } from '../db/errors.ts'
import { providerSessionHours } from '../governance/access/recheck.ts'
import { recordAccountEvents } from '../governance/people/account-events.ts'
import { authOptions, addressHeader, ownOrigins, sessionCookie, sessionSeconds } from './auth-options.ts'
import { addressOf, schemeOf } from './http-server.ts'
import { ApiError } from './errors.ts'
import { readJsonBody } from './json-body.ts'
import { deviceCookie, accountOf, guarded } from './password-guesses.ts'
import type { SendMail } from '../governance/service-mail.ts'

export interface Auth {
  /**
   * Who the request's cookie names. Reads the database every time, so every process refuses an ended session at once.
   * Throws `unauthenticated` if the request changes something and comes from another origin.
   */
  userOf(request: Request): Promise<SignedIn | null>
  answer(request: Request, response: Response): Promise<void>
  /** Calls an endpoint below `/api/auth` with the cookies and the client's address of `request`. */
  /** `isProven`: the person has the address, so a sign-up sends no mail that confirms it. */
  post(request: Request, path: string, body: unknown, isProven?: boolean): Promise<AuthAnswer>
  get(request: Request, path: string): Promise<AuthAnswer>
}

export interface SignedIn {
  readonly userId: string
  readonly sessionId: string
  /** The organization whose provider opened the session. */
  readonly boundTo: string | null
  /** A day has passed since the session began or was renewed: `GET /api/auth/get-session` renews it. */
  readonly isDue: boolean
}

export interface AuthAnswer {
  readonly answer: globalThis.Response
  readonly cookies: readonly string[]
}

export const authBodyLimit = 64 * 1024
/** What is passed on to the library. With others, such as `X-Forwarded-For`, a client could pretend to be a proxy. */
const passed = [
  'accept',
  'content-type',
  'cookie',
  'origin',
  'referer',
  'sec-fetch-dest',
  'sec-fetch-mode',
  'sec-fetch-site',
  'user-agent',
]
const answered = new Set(['GET', 'HEAD', 'POST', 'OPTIONS'])
const safe = new Set(['GET', 'HEAD', 'OPTIONS'])

export function createAuth(context: Context, mail: SendMail): Auth {
  /** Requests that have reset a password with a mailed token, with the mail addresses of the accounts. */
  const resets = new WeakMap<globalThis.Request, string>()
  /** While a person signs up who has read the mail of an invitation. The library gives its hooks a copy of the request. */
  const proven = new AsyncLocalStorage<true>()
  const library = betterAuth(
    authOptions(
      context,
      mail,
      (email, by) => {
        if (by !== undefined) resets.set(by, email)
      },
      () => proven.getStore() === true,
    ),
  )
  const signedIn = async (request: Request): ReturnType<Auth['userOf']> => {
    if (!(request.headers.cookie ?? '').includes(`${sessionCookie}=`)) return null
    // A renewal must send a new cookie to the browser, which only `GET /api/auth/get-session` does.
    const found = await library.api.getSession({
      headers: new Headers({ cookie: request.headers.cookie ?? '' }),
      query: { disableRefresh: true },
    })
    if (found === null) return null
    const { id: sessionId, expiresAt, createdAt } = found.session
    const boundTo = (found.session as { providerOrganization?: string | null }).providerOrganization ?? null
    if (boundTo !== null && Date.now() - createdAt.getTime() > providerSessionHours * 3_600_000) return null
    const isDue = expiresAt.getTime() - Date.now() < (sessionSeconds.lasts - sessionSeconds.renewed) * 1_000
    return { userId: found.user.id, sessionId, boundTo, isDue }
  }
  const endpoints = new Set(Object.values(library.api).map(({ path }) => `/api/auth${path}`))
  const ask = async (request: Request, asked: Asked): Promise<AuthAnswer> => {
    const passedOn = asWebRequest(context.config, request, asked)
    const handle = (): Promise<globalThis.Response> => library.handler(passedOn).catch(raced)
    const userOf = async () => (await signedIn(request))?.userId ?? null
    const { answer, cookies } = await guarded(context, { request, ...asked }, userOf, () =>
      asked.isProven === true ? proven.run(true, handle) : handle(),
    )
    // A reset by mail proves whose browser this is, so wrong passwords elsewhere cannot lock it out.
    const reset = resets.get(passedOn)
    if (reset !== undefined) cookies.push(deviceCookie(context.config, accountOf(reset)))
    if (!safe.has(asked.method)) await recordAccountEvents(context).catch(recordLater(context))
    noteFailure(context, request, asked.path, answer.status, endpoints)
    return { answer, cookies: [...answer.headers.getSetCookie(), ...cookies] }
  }
  return {
    async userOf(request) {
      const session = await signedIn(request)
      if (session !== null && !safe.has(request.method)) requireSameOrigin(context.config, request)
      return session
    },
    async answer(request, response) {
      if (!answered.has(request.method))
        throw new ApiError('not_found', `no endpoint below \`/api/auth/\` answers \`${request.method}\``)
      const body = safe.has(request.method) ? undefined : await readJsonBody(request, authBodyLimit)
      await send(response, await ask(request, { method: request.method, path: request.originalUrl, body }))
    },
    post: (request, path, body, isProven = false) =>
      ask(request, { method: 'POST', path: `/api/auth${path}`, body, isProven }),
    get: (request, path) => ask(request, { method: 'GET', path: `/api/auth${path}`, body: undefined }),
  }
}

interface Asked {
  readonly method: string
  readonly path: string
  readonly body: unknown
  readonly isProven?: boolean
}

/** The library first looks for a row and inserts it later, so the second of two requests at once finds a duplicate. */
function raced(error: unknown): never {
  if (!isDuplicate(error)) throw error
  throw new ApiError(
    'conflict',
    'another request did the same at the same moment: check the result, and try again if needed',
  )
}

/** A browser sends the true origin, and no page of another site can make it send ours. */
export function requireSameOrigin(config: Config, request: Request): void {
  const { origin } = request.headers
  if (origin !== undefined && ownOrigins(config, ownOrigin(request)).includes(origin)) return
  throw new ApiError(
    'unauthenticated',
    'a session can change something only from pages of this service: send its own address as `Origin`, or use an API key',
  )
}

/** The scheme and host to which the client sent the request; null if the `Host` header is not valid. */
function ownOrigin(request: Request): string | null {
  const url = `${schemeOf(request)}://${request.headers.host ?? ''}`
  return URL.canParse(url) ? new URL(url).origin : null
}

function asWebRequest(config: Config, request: Request, { method, path, body }: Asked): globalThis.Request {
  const headers = new Headers()
  for (const name of passed) {
    const value = request.headers[name]
    if (typeof value === 'string') headers.set(name, value)
  }
  headers.set(addressHeader, addressOf(request) ?? '')
  // The parsed body is always sent as JSON.
  headers.delete('content-type')
  if (body !== undefined) headers.set('content-type', 'application/json')
  return new globalThis.Request(addressAsked(config, request, path), {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

/**
 * The origin to which the client sent the request (or the public address), with path and query. As for a proxy, the
 * first line of a request may name another origin, which is ignored.
 */
function addressAsked(config: Config, request: Request, path: string): string {
  const base = ownOrigin(request) ?? new URL(publicBase(config)).origin
  const address = base + path.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '')
  if (!URL.canParse(address)) throw new ApiError('bad_request', 'the address of the request cannot be read')
  return address
}

const recordLater = (context: Telling) => (error: Error) =>
  context.log.warn({ err: error }, 'an account event is not in the audit log yet')

/** Not in the audit log, because a stranger could make that of any person grow. */
function noteFailure(
  context: Telling,
  request: Request,
  asked: string,
  status: number,
  endpoints: ReadonlySet<string>,
): void {
  if (status !== 401 && status !== 403 && status !== 429) return
  const [sent = ''] = asked.split('?', 1)
  // The path of an unknown endpoint may contain a token.
  const path = endpoints.has(sent) ? sent : '/api/auth/...'
  context.log.warn({ path, status, ip: addressOf(request) }, 'a sign-in or change of an account was refused')
}

async function send(response: Response, { answer, cookies }: AuthAnswer): Promise<void> {
  response.status(answer.status)
  for (const [name, value] of answer.headers) if (name !== 'set-cookie') response.setHeader(name, value)
  if (cookies.length > 0) response.setHeader('Set-Cookie', cookies)
  response.setHeader('Cache-Control', 'no-store')
  const wait = answer.headers.get('x-retry-after')
  if (wait !== null) response.setHeader('Retry-After', wait)
  response.end(Buffer.from(await answer.arrayBuffer()))
}
