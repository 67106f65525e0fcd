import type { Request, Response } from 'express'
import { betterAuth } from 'better-auth'
import { publicBase, type Config } from '../config.ts'
import type { Context } from '../context.ts'
import { isDuplicate } from '../governance/database-errors.ts'
import { recordAccountEvents } from '../governance/people/account-events.ts'
import { authOptions, addressHeader, ownOrigins, sessionCookie } from './auth-options.ts'
import { addressOf, schemeOf } from './client-address.ts'
import { ApiError } from './errors.ts'
import { readJsonBody } from './json-body.ts'
import { knownBrowserCookie } from './known-browser.ts'
import { accountOf, guarded } from './password-guesses.ts'
import type { Services } from './route.ts'

/** Sign-in for people (contract section 2): the sign-in library behind `/api/auth/*`, and its sessions. */
export interface Auth {
  /**
   * Who is signed in, and by which session, as its cookie says; null for nobody. Asks the database every time, so that a
   * session that ends, ends everywhere. Throws `unauthenticated` for what would change something and comes from another origin.
   */
  userOf(request: Request): Promise<{ readonly userId: string; readonly sessionId: string } | null>
  /** Answers a request below `/api/auth/`, in the library's own form. */
  answer(request: Request, response: Response): Promise<void>
}

const bodyLimit = 64 * 1024
/** What the library is told of a request: nothing that a client could pass off as a proxy's word. */
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

export function createAuth(context: Context, mail: Services['mail']): Auth {
  /** Whose password a request has set anew, by a mailed token. */
  const resets = new WeakMap<globalThis.Request, string>()
  const library = betterAuth(
    authOptions(context, mail, (email, by) => {
      if (by !== undefined) resets.set(by, email)
    }),
  )
  const signedIn = async (request: Request): ReturnType<Auth['userOf']> => {
    if (!(request.headers.cookie ?? '').includes(`${sessionCookie}=`)) return null
    // Renewal would need the answer to carry a new cookie: `GET /api/auth/get-session` does that.
    const found = await library.api.getSession({
      headers: new Headers({ cookie: request.headers.cookie ?? '' }),
      query: { disableRefresh: true },
    })
    return found === null ? null : { userId: found.user.id, sessionId: found.session.id }
  }
  const endpoints = new Set(Object.values(library.api).map(({ path }) => `/api/auth${path}`))
  return {
    async userOf(request) {
      const session = await signedIn(request)
      if (session !== null && !safe.has(request.method)) requireSameOrigin(context.config, request)
      return session
    },
    async answer(request, response) {
      if (!answered.has(request.method))
        throw new ApiError('not_found', `nothing below \`/api/auth/\` answers \`${request.method}\``)
      const body = safe.has(request.method) ? undefined : await readJsonBody(request, bodyLimit)
      const passedOn = asWebRequest(context.config, request, body)
      const userOf = async () => (await signedIn(request))?.userId ?? null
      const { answer, cookies } = await guarded(context, request, body, userOf, () =>
        library.handler(passedOn).catch(raced),
      )
      // They have shown that the account's mail is theirs: no stranger's guesses hold them up.
      const reset = resets.get(passedOn)
      if (reset !== undefined) cookies.push(knownBrowserCookie(context.config, accountOf(reset)))
      if (!safe.has(request.method)) await recordAccountEvents(context).catch(recordLater(context))
      noteFailure(context, request, answer.status, endpoints)
      await send(response, answer, cookies)
    },
  }
}

/** The library looks first and inserts then: of two requests at once the second finds the row of the first. */
function raced(error: unknown): never {
  if (!isDuplicate(error)) throw error
  throw new ApiError(
    'conflict',
    'another request has done the same at this moment: look at what it did, and try again if need be',
  )
}

/** A browser says where a request comes from, and another site cannot make it say ours. */
function requireSameOrigin(config: Config, request: Request): void {
  const { origin } = request.headers
  if (origin !== undefined && ownOrigins(config, ownOrigin(request)).includes(origin)) return
  throw new ApiError(
    'unauthenticated',
    'a session changes something only from pages of this service: send its own address as `Origin`, or use an API key',
  )
}

/** Scheme and host as the client addressed them; null where that is no address. */
function ownOrigin(request: Request): string | null {
  const url = `${schemeOf(request)}://${request.headers.host ?? ''}`
  return URL.canParse(url) ? new URL(url).origin : null
}

function asWebRequest(config: Config, request: Request, body: unknown): globalThis.Request {
  const headers = new Headers()
  for (const name of passed) {
    const value = request.headers[name]
    if (typeof value === 'string') headers.set(name, value)
  }
  headers.set(addressHeader, addressOf(request) ?? '')
  // Of the body only what was read goes on, and it is JSON whatever it was called.
  headers.delete('content-type')
  if (body !== undefined) headers.set('content-type', 'application/json')
  return new globalThis.Request(addressAsked(config, request), {
    method: request.method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

/** Our own scheme and host with the path and query that were asked for: another host, as proxies are sent one, does not count. */
function addressAsked(config: Config, request: Request): string {
  const base = ownOrigin(request) ?? new URL(publicBase(config)).origin
  const address = base + request.originalUrl.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '')
  if (!URL.canParse(address)) throw new ApiError('bad_request', 'the address of the request cannot be read')
  return address
}

const recordLater = (context: Context) => (error: Error) =>
  context.log.warn({ err: error }, 'what happened to an account is not in the audit log yet')

/** Failures are not audited: anybody can cause them, and nobody's chain may grow by what a stranger does. */
function noteFailure(
  context: Context,
  request: Request,
  status: number,
  endpoints: ReadonlySet<string>,
): void {
  if (status !== 401 && status !== 403 && status !== 429) return
  const [sent = ''] = request.originalUrl.split('?', 1)
  // What is not an endpoint's own path may hold a token.
  const path = endpoints.has(sent) ? sent : '/api/auth/...'
  context.log.warn({ path, status, ip: addressOf(request) }, 'a sign-in or change of an account was refused')
}

async function send(response: Response, answer: globalThis.Response, ours: readonly string[]): Promise<void> {
  response.status(answer.status)
  for (const [name, value] of answer.headers) if (name !== 'set-cookie') response.setHeader(name, value)
  const cookies = [...answer.headers.getSetCookie(), ...ours]
  if (cookies.length > 0) response.setHeader('Set-Cookie', cookies)
  response.setHeader('Cache-Control', 'no-store')
  const wait = answer.headers.get('x-retry-after')
  if (wait !== null) response.setHeader('Retry-After', wait)
  response.end(Buffer.from(await answer.arrayBuffer()))
}
