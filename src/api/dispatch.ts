import type { Request, Response } from 'express'
import type { Context } from '../context.ts'
import { authenticate, type Caller, type Identity } from '../governance/identity.ts'
import { covers, hasRole } from '../governance/scopes.ts'
import type { Role } from '../policy/types.ts'
import { acts, accessOf, splitKey, type Access } from './access.ts'
import { ApiError, statusOf, toApiError } from './errors.ts'
import { answerOnce } from './idempotent.ts'
import { readJsonBody } from './json-body.ts'
import { readQuery } from './query.ts'
import type { Call, Route, Services } from './route.ts'
import { sendAnswer } from './send.ts'
import { findStanding } from './subjects.ts'
import { validate } from './validation.ts'

type Guarded = Extract<Access, { public: false }>

/**
 * Runs one request through what its row of the access table says. Errors come in the order of contract section 1: 401,
 * `missing_scope`, (unreadable body), 404, `insufficient_role`, 422, then whatever the handler finds.
 */
export async function dispatch(
  route: Route,
  context: Context,
  services: Services,
  request: Request,
  response: Response,
): Promise<void> {
  const access = accessOf(route.key)
  if (access.public) {
    const answer = await route.open?.(context, services, request, response)
    if (answer) sendAnswer(response, answer)
    return
  }
  const identity = await admit(context, request, access)
  const params = pathParams(request)
  const query = readQuery(request)
  const takesBody = route.body !== undefined || splitKey(route.key).method === 'POST'
  const rawBody = takesBody ? await bodyOf(request) : undefined
  const naming = { params, organizationId: organizationNamed(query, rawBody) ?? identity.organizationId }
  const caller = await standIn(context, identity, access, request, naming)
  if (access.subject === 'own') requireOneOrganization(query, rawBody)

  const call: Call = {
    context,
    services,
    identity,
    caller,
    params,
    query: route.query === undefined ? undefined : validate(route.query, query, 'the query'),
    body: route.body === undefined ? undefined : validate(route.body, rawBody, 'the body'),
    idempotencyKey: idempotencyKey(route, request),
    once: null,
    signal: goneSignal(response, services),
    stillAllowed: async () => {
      try {
        await standIn(context, await admit(context, request, access), access, request, naming)
        return true
      } catch (error) {
        // An outage says nothing about anybody's rights.
        if (statusOf[toApiError(error).code] >= 500) throw error
        return false
      }
    },
  }
  if (route.stream !== undefined) {
    // HEAD asks whether there is a stream, and must not open one.
    if (request.method === 'HEAD') sendAnswer(response, { status: 200, body: undefined })
    else await route.stream(call, request, response)
    return
  }
  const answer = await answerOnce(route, call, request, rawBody)
  sendAnswer(response, answer)
}

/** No body at all stands for an empty object; `null` does not. */
async function bodyOf(request: Request): Promise<unknown> {
  const body = await readJsonBody(request)
  return body === undefined ? {} : body
}

/** Who sends the request, with a key that has the route's scope. */
async function admit(context: Context, request: Request, access: Guarded): Promise<Identity> {
  const identity = await authenticate(context.db, request.headers.authorization)
  if (identity === null)
    throw new ApiError('unauthenticated', 'send `Authorization: Bearer <API key>` with a key that is valid')
  requireScope(identity, access)
  return identity
}

function requireScope(identity: Identity, { scope }: Guarded): void {
  if (scope === null || covers(identity.scopes, scope)) return
  const message = `the key lacks the scope \`${scope}\`: use one that has it`
  throw new ApiError('missing_scope', message, [{ path: scope, message: `needs the scope \`${scope}\`` }])
}

function requireRole(role: Role, minimum: Role): void {
  if (hasRole(role, minimum)) return
  const message = `this needs the role \`${minimum}\` in the organization, yours is \`${role}\``
  throw new ApiError('insufficient_role', message, [
    { path: minimum, message: `needs the role \`${minimum}\`` },
  ])
}

/** The caller in the subject's organization, where their role suffices. */
async function standIn(
  context: Context,
  identity: Identity,
  { subject, role }: Guarded,
  request: Request,
  naming: { params: Record<string, string>; organizationId: string },
): Promise<Caller> {
  const standing =
    subject === 'nothing'
      ? // The lowest role: what is about the caller alone needs no other, and gives none.
        { organizationId: identity.organizationId, role: 'viewer' as const }
      : await findStanding(context.db, identity.user.id, subject, naming)
  requireRole(standing.role, role)
  return {
    userId: identity.user.id,
    email: identity.user.email,
    organizationId: standing.organizationId,
    role: standing.role,
    keyId: identity.keyId,
    scopes: identity.scopes,
    ip: request.socket.remoteAddress?.replace(/^::ffff:/, '') ?? null,
  }
}

/** `organization_id` of the query, else of the body. */
function organizationNamed(query: Record<string, string>, body: unknown): string | null {
  return query['organization_id'] ?? organizationOfBody(body)
}

/** Which of two organizations is meant is not for us to guess: what is made would be in the wrong one. */
function requireOneOrganization(query: Record<string, string>, body: unknown): void {
  const [inQuery, inBody] = [query['organization_id'], organizationOfBody(body)]
  if (inQuery === undefined || inBody === null || inQuery === inBody) return
  const message = 'the body names another organization than the query: name one'
  throw new ApiError('validation_error', message, [
    {
      path: 'organization_id',
      message: `\`${inBody.slice(0, 100)}\` in the body, \`${inQuery.slice(0, 100)}\` in the query`,
    },
  ])
}

/** Of another type than text it is left to validation to refuse. */
function organizationOfBody(body: unknown): string | null {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'organization_id')) return null
  const named = (body as { organization_id: unknown }).organization_id
  return typeof named === 'string' ? named : null
}

/** Parameters that no id can equal, and that Postgres could not even compare, name nothing. */
function pathParams(request: Request): Record<string, string> {
  const params: Record<string, string> = {}
  for (const [name, value] of Object.entries(request.params)) {
    const text = String(value)
    if (text.includes('\u0000')) throw new ApiError('not_found', 'nothing has a name with NUL characters')
    params[name] = text
  }
  return params
}

function idempotencyKey(route: Route, request: Request): string | null {
  const key = request.headers['idempotency-key']
  if (key === undefined || !acts(route.key)) return null
  if (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key)) return key
  throw new ApiError(
    'bad_request',
    'an `Idempotency-Key` has 1 to 255 printable ASCII characters without spaces',
  )
}

function goneSignal(response: Response, services: Services): AbortSignal {
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  return AbortSignal.any([gone.signal, services.draining])
}
