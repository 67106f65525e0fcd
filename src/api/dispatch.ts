import type { Request, Response } from 'express'
import type { Context } from '../governance/context.ts'
import { roleIn, type Caller, type Identity } from '../governance/access/identity.ts'
import { requireFactor } from '../governance/access/second-factor.ts'
import { covers, hasRole, scopesOfRole } from '../governance/access/scopes.ts'
import { JsonParts } from '../shared/json-parts.ts'
import { createEntry, withShare, type Entry } from '../governance/limits/request-shares.ts'
import { requireRole, requireScope } from '../governance/access/recheck.ts'
import { nextTurn } from '../shared/time-slices.ts'
import { acts, accessOf, splitKey, type Access } from './access.ts'
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
import { requestIdOf } from './request-id.ts'
import type { Call, Mounted, Route } from './route.ts'
import { sendAnswer, sendParts } from './send.ts'
import { asking, requireIdentity } from './sender.ts'
import { findMissingToKey, findStanding } from './subjects.ts'
import { validate } from './validation.ts'

type Guarded = Extract<Access, { public: false }>

/**
 * Runs one request through the checks of its row in the access table. Errors come in this order: 401,
 * `missing_scope`, an unreadable body, 404, `insufficient_role`, 422, then errors of the handler.
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
    await nextTurn()
    const { identity, confirm } = await asking(context, services.auth, request, access.scope)
    // `signal` is a function and not a getter: V8 makes a hidden class for each object with a getter, which keeps the
    // whole request in memory until the next full collection.
    const signal = (): AbortSignal => goneSignal(response, services)
    const asker = { identity, ip: addressOf(request), requestId: requestIdOf(response) }
    sendAnswer(response, await route.ask({ context, asker, confirm, signal }, request))
    return
  }
  const identity = await requireIdentity(context, services.auth, request)
  try {
    await count(context, access, identity, request, response)
  } catch (error) {
    await withShare(context.shares, identity.charged.holderId, 'refusal', async () => {})
    throw error
  }
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

/** Handles a request that is counted: it waits for its organization's share, then calls the handler. */
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
  const requestId = requestIdOf(response)
  const caller = { ...(await standIn(context, identity, access, request, naming)), requestId }
  entry.works()
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
    leaveShare: () => entry.leave(),
    stillAllowed: async () => {
      try {
        const now = await requireIdentity(context, services.auth, request)
        requireScope(now.scopes, access.scope)
        await standIn(context, now, access, request, naming)
        return true
      } catch (error) {
        // An outage says nothing about the caller's rights.
        if (statusOf[toApiError(error).code] >= 500) throw error
        return false
      }
    },
  }
  // Waiting for work elsewhere, or for a slow reader, does not use the organization's share. A handler that goes on to wait calls
  // `leaveShare` then.
  if (route.stream !== undefined || route.waits) entry.leave()
  if (route.stream !== undefined) {
    // HEAD asks whether the stream exists and must not open it.
    if (request.method === 'HEAD') sendAnswer(response, { status: 200, body: undefined })
    else await route.stream(call, request, response)
    return
  }
  const answered = await answerOnce(route, call, request, rawBody)
  entry.works()
  if (answered.body instanceof JsonParts) {
    entry.leave()
    await sendParts(response, answered.status, answered.body, call)
  } else sendAnswer(response, answered)
}

/**
 * Counts the request for the sender's organization. A quota change by somebody who may make it has its own bucket, so
 * that an owner who set a limit too low can raise it again. Anybody else's attempt counts as a normal request.
 */
async function count(
  context: Pick<Context, 'db' | 'metrics' | 'rates' | 'sparseLog'>,
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

/** A missing body means an empty object; `null` does not. */
async function bodyOf(request: Request, { bodyLimit, bodyValues }: Route, entry: Entry): Promise<unknown> {
  const body = await readJsonBody(request, bodyLimit, bodyValues, (size) => entry.admit(size))
  return body === undefined ? {} : body
}

/** The caller in the subject's organization. Throws if the role is too low or a second factor is missing. */
async function standIn(
  context: Pick<Context, 'config' | 'db'>,
  identity: Identity,
  { subject, role, scope, factor = false }: Guarded,
  request: Request,
  naming: { params: Record<string, string>; organizationId: string },
): Promise<Caller> {
  const standing =
    subject === 'nothing'
      ? // Calls about the caller alone need only the lowest role. A session may always learn who it is and where to
        // enrol a factor, so nothing is missing for a session here.
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

/** Path parameters. One with a NUL character, which PostgreSQL cannot compare, is 404. */
function pathParams(request: Request): Record<string, string> {
  const params: Record<string, string> = {}
  for (const [name, value] of Object.entries(request.params)) {
    const text = String(value)
    if (text.includes('\u0000')) throw new ApiError('not_found', 'no name contains NUL characters')
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
