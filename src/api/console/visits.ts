import { setTimeout as delay } from 'node:timers/promises'
import type { Request, Response } from 'express'
import { stringify } from 'yaml'
import type { Api, Organization, Person, ReadDefinition } from '../../console/visit.ts'
import type { Context } from '../../governance/context.ts'
import { identityOfSession, type Identity } from '../../governance/access/identity.ts'
import { deepestJson, jsonIssues } from '../../contract/json.ts'
import { headlineWithField } from '../../policy/issues.ts'
import { publicBase, type Config } from '../../shared/config.ts'
import { addressOf, requestIdOf } from '../http-server.ts'
import { goneSignal, answerOnce } from '../dispatch.ts'
import { ApiError, statusOf, toApiError } from '../errors.ts'
import { isGuarded, type Mounted, type Answer, type Route } from '../route.ts'
import { requireScopes } from '../../governance/access/recheck.ts'
import { JsonParts, ObjectParts } from '../../shared/json-parts.ts'
import { admitted, pathParams, type Sent } from '../admitted.ts'
import { hashedFile, noFile, sentFile, type FormFile } from '../file-form.ts'
import { parseJson } from '../json-body.ts'
import { bodyValues } from '../routes/workflows.ts'
import { routes } from '../routes/index.ts'
import { bodyOfYaml, withPlaces } from '../yaml-body.ts'

/** Pages accept no API keys. */
export interface Signed {
  readonly identity: Identity
  readonly sessionId: string
  readonly isDue: boolean
}

/** Only when the person opens a page, so that the session can end after the person has left an open one. */
export async function renewed(
  { auth }: Pick<Mounted, 'auth'>,
  request: Request,
  response: Response,
  { isDue }: Signed,
): Promise<void> {
  const mode = request.headers['sec-fetch-mode']
  if (!isDue || (mode !== undefined && mode !== 'navigate')) return
  const { cookies } = await auth.get(request, '/get-session')
  if (cookies.length > 0) response.append('Set-Cookie', [...cookies])
}

export async function signedIn(
  context: Context,
  services: Mounted,
  request: Request,
): Promise<Signed | null> {
  if (request.headers.authorization !== undefined) return null
  const session = await services.auth.userOf(request)
  const identity = session && (await identityOfSession(context.db, session, wantedBy(request)))
  return session && identity && { identity, sessionId: session.sessionId, isDue: session.isDue }
}

export function apiOf(
  context: Context,
  services: Mounted,
  {
    request,
    response,
    signed,
    file = null,
  }: { request: Request; response: Response; signed: Signed; file?: FormFile | null },
): Api {
  return apiFor(context, services, {
    file,
    identity: signed.identity,
    ip: addressOf(request),
    requestId: requestIdOf(response),
    signal: () => goneSignal(response, services),
    identify: async () => {
      const now = await signedIn(context, services, request)
      if (now === null) throw new ApiError('unauthenticated', 'the session has ended: sign in again')
      return now.identity
    },
    ask: (open) => open(context, services, request, response),
  })
}

const cookie = 'countersign.organization'

/** Names the organization whose lists the person wants to see. The cookie gives no access. */
export function organizationCookie(config: Config, id: string): string {
  const secure = publicBase(config).startsWith('https:') ? '; Secure' : ''
  return `${cookie}=${id}; Path=/console; HttpOnly; SameSite=Lax; Max-Age=31536000${secure}`
}

export const organizationId = /^org_[0-9A-Za-z]{26}$/

export async function personOf(api: Api, request: Request): Promise<Person> {
  const me = await api.call('GET /me')
  if (!me.ok) throw new ApiError(me.code === 'mfa_required' ? 'mfa_required' : 'unavailable', me.message)
  const { user, organizations } = me.body
  return { user, organizations, organization: chosen(organizations, request) }
}

/** What the cookie names if the person is a member; else the first that is not personal, or else the personal one. */
function chosen(organizations: readonly Organization[], request: Request): Organization | null {
  const wanted = wantedBy(request)
  return (
    organizations.find(({ id }) => id === wanted) ??
    organizations.find(({ personal }) => !personal) ??
    organizations[0] ??
    null
  )
}

const wantedBy = (request: Request): string | null =>
  /(?:^|; ?)countersign\.organization=(org_\w{26})(?:;|$)/.exec(request.headers.cookie ?? '')?.[1] ?? null

/*
 * Pages call the routes of the public API without HTTP, with the same checks of rights, shares, audit and idempotency.
 * Only the request for the page counts for the rate limits.
 */

interface Sender {
  /** What the form of the page has brought. */
  readonly file: FormFile | null
  readonly identity: Identity
  readonly ip: string | null
  readonly requestId: string
  readonly signal: () => AbortSignal
  readonly identify: () => Promise<Identity>
  /** Asks a public route, which answers with a body. */
  readonly ask: (open: NonNullable<Route['open']>) => Promise<Answer | null>
}

/** A second tap on a button shows the answer to the first request, and looks for it so often. */
const mostLooks = 50
const lookMilliseconds = 100

const byKey = new Map<string, Route>(routes.map((route) => [route.key, route]))

/** A request to some route. Pages are held to the types of their routes by `Api`. */
interface AnyRequest {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string | undefined>>
  readonly body?: unknown
  readonly idempotencyKey?: string
  readonly only?: readonly string[]
  readonly mostCharacters?: number
}

/** Characters. YAML of a longer value takes half a second to write, so it gets JSON, which YAML readers read too. */
const mostYaml = 65_536

function apiFor(context: Context, services: Mounted, sender: Sender): Api {
  return {
    readYaml(text) {
      try {
        return { ok: true, body: bodyOfYaml(Buffer.from(text), parseYamlValues) as ReadDefinition }
      } catch (thrown) {
        return refusalOf(toApiError(thrown))
      }
    },
    writeYaml: (value) => {
      const json = JSON.stringify(value, null, 2)
      return json.length > mostYaml ? json : stringify(value, { lineWidth: 100 })
    },
    async call(key, ...[given]) {
      const request = (given ?? {}) as AnyRequest
      for (let looks = 1; ; looks += 1)
        try {
          const answer = await call(context, services, sender, key, request)
          // The tests of the API hold the answers of each route to its schemas.
          return { ok: true, body: (await bodyOf(answer, request)) as never }
        } catch (thrown) {
          const error = toApiError(withPlaces(thrown, request.body))
          // The application's error handler logs it.
          if (error.code === 'internal') throw thrown
          if (error.code !== 'idempotency_in_progress' || looks >= mostLooks) return refusalOf(error)
          await delay(lookMilliseconds)
        }
    },
  }
}

const refusalOf = ({ code, message, details }: ApiError) =>
  ({ ok: false, status: statusOf[code], code, message, details }) as const

const parseYamlValues = (json: string): unknown => parseJson(Buffer.from(json), bodyValues)

/** A form can bring what the bodies of the API cannot (json-body.ts). Throws `validation_error`. */
function refuseUnstorable(given: Readonly<Record<'params' | 'query' | 'body', unknown>>): void {
  const [issue] = jsonIssues(JSON.parse(textOf(given)))
  if (issue === undefined) return
  const path = issue.path.replace(/^(params|query|body)\.?/, '')
  throw new ApiError('validation_error', headlineWithField('this cannot be kept', [{ ...issue, path }]), [
    { ...issue, path },
  ])
}

function textOf(given: unknown): string {
  try {
    return JSON.stringify(given)
  } catch {
    // Thousands of levels overflow the stack.
    throw new ApiError('validation_error', `it is nested deeper than ${deepestJson} levels: make it flatter`)
  }
}

async function call(
  context: Context,
  services: Mounted,
  { file, identity, ip, requestId, signal, identify, ask }: Sender,
  key: string,
  { params = {}, query = {}, body, idempotencyKey }: AnyRequest,
): Promise<TextAnswer> {
  const route = byKey.get(key)
  const answer = route?.open === undefined ? null : await ask(route.open)
  if (answer !== null) return answer
  if (route?.handle === undefined || !isGuarded(route))
    throw new Error(`no route for pages has the key ${key}`)
  requireScopes(identity.scopes, route.needs)
  refuseUnstorable({ params, query, body })
  const sent: Sent = {
    params: pathParams(params),
    query: Object.fromEntries(Object.entries(query).filter(hasValue)),
    repeated: null,
    body: () => Promise.resolve(route.body === undefined ? undefined : (body ?? {})),
    idempotencyKey: () => idempotencyKey ?? null,
    ip,
    requestId,
    signal,
    identify,
  }
  return admitted({ route, context, services, identity, sent }, (made, _entry, rawBody) => {
    if (route.receive === undefined) return answerOnce(route, made, rawBody)
    if (file === null) throw noFile()
    const received = sentFile(file, (body as { readonly labels?: readonly string[] }).labels ?? [])
    return answerOnce(route, { ...made, body: received }, hashedFile(received))
  })
}

const hasValue = (entry: [string, string | undefined]): entry is [string, string] => entry[1] !== undefined

type TextAnswer = Answer & { readonly text?: string | null }

/** As a client of the HTTP API would parse it. */
async function bodyOf(
  { status, body, text }: TextAnswer,
  { only, mostCharacters }: AnyRequest,
): Promise<unknown> {
  if (text !== undefined && text !== null) {
    const read = JSON.parse(text) as { error?: { code: string; message: string } }
    // An earlier request with this key ended with an error, which its stored answer has.
    if (status >= 400 && read.error !== undefined)
      throw new ApiError(read.error.code as ApiError['code'], read.error.message)
    return read
  }
  if (only !== undefined && body instanceof ObjectParts) return JSON.parse(await body.only(only).text())
  return body instanceof JsonParts ? JSON.parse(await textUpTo(body, mostCharacters ?? Infinity)) : body
}

async function textUpTo(parts: JsonParts, most: number): Promise<string> {
  let text = ''
  for await (const part of parts) {
    text += part
    if (text.length > most) throw new ApiError('too_large', `the answer has more than ${most} characters`)
  }
  return text
}
