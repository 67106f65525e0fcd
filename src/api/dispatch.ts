import type { Request, Response } from 'express'
import type { Context } from '../context.ts'
import {
  authenticate,
  forget,
  identityOfSession,
  recall,
  roleIn,
  type Caller,
  type Identity,
} from '../governance/identity.ts'
import { requireFactor } from '../governance/people/second-factor.ts'
import { covers, hasRole, scopesOfRole, type Scope } from '../governance/scopes.ts'
import { JsonParts } from '../governance/json-parts.ts'
import { createEntry, type Entry } from '../governance/shares.ts'
import { requireRole, requireScope } from '../governance/standing.ts'
import { turn } from '../governance/turns.ts'
import { acts, accessOf, splitKey, type Access } from './access.ts'
import type { Auth } from './auth.ts'
import { addressOf } from './client-address.ts'
import { ApiError, statusOf, toApiError } from './errors.ts'
import { answerOnce } from './idempotent.ts'
import { readJsonBody } from './json-body.ts'
import {
  organizationNamed,
  requireOneOrganization,
  requireSubjectsOrganization,
} from './organization-named.ts'
import { queryOf, readQuery } from './query.ts'
import { countRequest } from './rate.ts'
import type { Call, Mounted, Route } from './route.ts'
import { sendAnswer, sendParts } from './send.ts'
import { findMissingToKey, findStanding } from './subjects.ts'
import { validate } from './validation.ts'

type Guarded = Extract<Access, { public: false }>

/**
 * Runs one request through what its row of the access table says. Errors come in the order of contract section 1: 401,
 * `missing_scope`, (unreadable body), 404, `insufficient_role`, 422, then whatever the handler finds.
 */
export async function dispatch(
  route: Route,
  context: Context,
  services: Mounted,
  request: Request,
  response: Response,
): Promise<void> {
  const access = accessOf(route.key)
  if (access.public) {
    validate(queryOf(route), readQuery(request), 'the query')
    const answer = await route.open?.(context, services, request, response)
    if (answer) sendAnswer(response, answer)
    return
  }
  if (route.ask !== undefined) {
    await turn()
    const { identity, confirm } = await asking(context, services.auth, request, access.scope)
    // Functions: an object with a getter of its own gets a hidden class of its own, which lives until the next full
    // collection and keeps the whole request alive as long.
    const signal = (): AbortSignal => goneSignal(response, services)
    const asker = { identity, ip: addressOf(request) }
    sendAnswer(response, await route.ask({ context, asker, confirm, signal }, request))
    return
  }
  const identity = await known(context, services.auth, request)
  await count(context, access, identity, request, response)
  requireScope(identity.scopes, access.scope)
  const entry = createEntry(context.shares, identity.charged.holderId)
  try {
    await answer({ route, access, context, services, identity, entry }, request, response)
  } finally {
    entry.leave()
  }
}

interface Counted {
  readonly route: Exclude<Route, { ask: unknown } | { open: unknown }>
  readonly access: Guarded
  readonly context: Context
  readonly services: Mounted
  readonly identity: Identity
  readonly entry: Entry
}

/** What follows once a request is counted: it waits for its organization's share, then for its handler. */
async function answer(
  { route, access, context, services, identity, entry }: Counted,
  request: Request,
  response: Response,
): Promise<void> {
  const params = pathParams(request)
  const query = readQuery(request)
  const takesBody = route.body !== undefined || splitKey(route.key).method === 'POST'
  const rawBody = takesBody ? await bodyOf(request, route, entry) : undefined
  await entry.admit('small')
  const naming = {
    params,
    organizationId: organizationNamed(query, rawBody) ?? identity.wanted ?? identity.organizationId,
  }
  const caller = await standIn(context, identity, access, request, naming)
  requireOneOrganization(query, rawBody)
  if (access.subject !== 'nothing') requireSubjectsOrganization(query, rawBody, caller)

  const call: Call = {
    context,
    services,
    identity,
    caller,
    params,
    query: validate(queryOf(route), query, 'the query'),
    body: route.body === undefined ? undefined : validate(route.body, rawBody, 'the body'),
    idempotencyKey: idempotencyKey(route, request),
    once: null,
    signal: goneSignal(response, services),
    stillAllowed: async () => {
      try {
        const now = await known(context, services.auth, request)
        requireScope(now.scopes, access.scope)
        await standIn(context, now, access, request, naming)
        return true
      } catch (error) {
        // An outage says nothing about anybody's rights.
        if (statusOf[toApiError(error).code] >= 500) throw error
        return false
      }
    },
  }
  // What waits for a person or a run, or sends as slowly as its reader takes it, is no work.
  if (route.stream !== undefined || 'wait' in queryOf(route).shape) entry.leave()
  if (route.stream !== undefined) {
    // HEAD asks whether there is a stream, and must not open one.
    if (request.method === 'HEAD') sendAnswer(response, { status: 200, body: undefined })
    else await route.stream(call, request, response)
    return
  }
  const answered = await answerOnce(route, call, request, rawBody)
  entry.leave()
  if (answered.body instanceof JsonParts) await sendParts(response, answered.status, answered.body, call)
  else sendAnswer(response, answered)
}

/**
 * Counts the request for the sender's organization. A change of the quota by somebody who may make it counts apart, so that an
 * owner who has set a limit too low can raise it again; by anybody else it is a request like any other.
 */
async function count(
  context: Context,
  { scope, role }: Guarded,
  { charged, user, scopes }: Identity,
  request: Request,
  response: Response,
): Promise<void> {
  const id = String(request.params['id'])
  if (scope === 'quota:write' && covers(scopes, scope) && !id.includes('\u0000')) {
    const present = await roleIn(context.db, user.id, id)
    if (present !== null && hasRole(present, role))
      return countRequest(context, response, { holderId: id, limits: charged.limits }, 'quota')
  }
  return countRequest(context, response, charged, scope === 'agents:authorize' ? 'reports' : 'requests')
}

/** No body at all stands for an empty object; `null` does not. */
async function bodyOf(request: Request, { bodyLimit, bodyValues }: Route, entry: Entry): Promise<unknown> {
  const body = await readJsonBody(request, bodyLimit, bodyValues, (size) => entry.admit(size))
  return body === undefined ? {} : body
}

/** Who sends the request, with a key or a session. Throws `unauthenticated`. */
async function known(context: Context, auth: Auth, request: Request): Promise<Identity> {
  const identity = await identify(context, auth, request)
  if (identity === null) throw unauthenticated()
  return identity
}

const unauthenticated = (): ApiError =>
  new ApiError(
    'unauthenticated',
    'send `Authorization: Bearer <API key>` with a key that is valid, or sign in',
  )

/**
 * Who asks a question. A key that asks often is not looked up each time, as its question is decided where key, scope and
 * role are asked for under the lock; an answer given without that is confirmed first (docs/decisions/0049).
 */
async function asking(
  context: Context,
  auth: Auth,
  request: Request,
  scope: Scope | null,
): Promise<{ readonly identity: Identity; readonly confirm: () => Promise<void> }> {
  const anew = async (): Promise<Identity> => {
    const identity = await known(context, auth, request)
    requireScope(identity.scopes, scope)
    return identity
  }
  const { authorization } = request.headers
  const recalled = authorization === undefined ? null : await recall(context.db, authorization)
  if (recalled === null && authorization !== undefined) throw unauthenticated()
  // A scope may have been added within the second.
  if (recalled === null || (scope !== null && !covers(recalled.identity.scopes, scope)))
    return { identity: await anew(), confirm: async () => {} }
  const { identity, isRemembered } = recalled
  const confirm = async (): Promise<void> => {
    if (!isRemembered) return
    forget(context.db, authorization)
    await anew()
  }
  return { identity, confirm }
}

/** A header that names a key is never made up for by a cookie. */
async function identify(context: Context, auth: Auth, request: Request): Promise<Identity | null> {
  if (request.headers.authorization !== undefined)
    return authenticate(context.db, request.headers.authorization)
  const session = await auth.userOf(request)
  if (session === null) return null
  const wanted = request.headers['x-organization-id']
  return identityOfSession(context.db, session, typeof wanted === 'string' ? wanted : null)
}

/** The caller in the subject's organization, where their role suffices. */
async function standIn(
  context: Context,
  identity: Identity,
  { subject, role, scope, factor = false }: Guarded,
  request: Request,
  naming: { params: Record<string, string>; organizationId: string },
): Promise<Caller> {
  const standing =
    subject === 'nothing'
      ? // The lowest role: what is about the caller alone needs no other, and gives none. A session's person must be able to
        // learn who they are, where they are a member, and so where to enrol: for a session nothing is missing here.
        {
          organizationId: identity.organizationId,
          role: 'viewer' as const,
          missing: identity.keyId === null ? null : await findMissingToKey(context.db, identity),
        }
      : await findStanding(context.db, identity, { subject, factor }, naming)
  requireFactor(context.config, { scope, factor }, standing.missing, identity)
  if (subject !== 'nothing') requireRole(standing.role, role)
  return {
    userId: identity.user.id,
    email: identity.user.email,
    organizationId: standing.organizationId,
    role: standing.role,
    keyId: identity.keyId,
    sessionId: identity.sessionId,
    scopes: identity.keyId === null ? scopesOfRole(standing.role) : identity.scopes,
    needs: { scope, role, factor },
    ip: addressOf(request),
  }
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

function goneSignal(response: Response, services: Mounted): AbortSignal {
  const gone = new AbortController()
  if (response.closed) gone.abort()
  else response.once('close', () => gone.abort())
  return AbortSignal.any([gone.signal, services.draining])
}
