import type { Request, Response } from 'express'
import type { Context } from '../governance/context.ts'
import {
  roleIn,
  authenticate,
  forget,
  identityOfSession,
  recall,
  type Identity,
  type Charged,
  type Caller,
} from '../governance/access/identity.ts'
import { covers, hasRole, type Scope } from '../governance/access/scopes.ts'
import { JsonParts } from '../shared/json-parts.ts'
import { type Taken, type Kind, noteRefusal } from '../governance/limits/rates.ts'
import { createEntry, type Entry } from '../governance/limits/shares.ts'
import { requireScopes, requireScope } from '../governance/access/recheck.ts'
import { sayRoleOfScope } from '../governance/access/whom-to-ask.ts'
import { nextTurn } from '../shared/time-slices.ts'
import { admitted, pathParams, type Sent } from './admitted.ts'
import { addressOf, requestIdOf } from './http-server.ts'
import { ApiError, validate, errorBody, statusOf, toApiError } from './errors.ts'
import { readJsonBody } from './json-body.ts'
import { queryOf, readQuery, refuseRepeated } from './query.ts'
import {
  acts,
  clientGone,
  isGuarded,
  splitKey,
  type Call,
  type Mounted,
  type Needs,
  type Route,
  type Answer,
} from './route.ts'
import { sendAnswer, sendParts, jsonText, textWithin } from './send.ts'
import type { Auth } from './auth.ts'
import { withPlaces } from './yaml-body.ts'
import { sql } from 'kysely'
import type { Db } from '../db/schema/index.ts'
import { isBackedByFactor } from '../governance/access/second-factor.ts'
import { hashOf, sha256 } from '../shared/canonical-json.ts'
import { mostKeptLength, openKey, type Claim } from '../governance/idempotency.ts'

/**
 * The first failed check decides the error, in this order: 401, `rate_limited`, `missing_scope`, a body that cannot be
 * read, 404 of the subject, `mfa_required`, 404 of an object inside the subject, `insufficient_role`, 422, errors of
 * the handler.
 */
export async function dispatch(
  route: Route,
  context: Context,
  services: Mounted,
  request: Request,
  response: Response,
): Promise<void> {
  if (!isGuarded(route)) {
    const { query, repeated } = readQuery(request)
    refuseRepeated(repeated)
    validate(queryOf(route), query, 'the query')
    const answer = await route.open?.(context, services, request, response)
    if (answer) sendAnswer(response, answer)
    return
  }
  if (route.ask !== undefined) {
    await nextTurn()
    const { identity, confirm } = await asking(context, services.auth, request, route.needs.scope)
    // Not a getter: V8's hidden class for it would keep the request until the next full garbage collection.
    const signal = (): AbortSignal => goneSignal(response, services)
    const asker = { identity, ip: addressOf(request), requestId: requestIdOf(response) }
    const show = (taken: Taken): void => showRate(response, taken)
    sendAnswer(response, await route.ask({ context, asker, confirm, showRate: show, signal }, request))
    return
  }
  const identity = await requireIdentity(context, services.auth, request)
  try {
    await count(context, route.needs, identity, request, response)
  } catch (error) {
    await context.shares.refusal.hold(identity.charged.holderId, async () => {})
    throw error
  }
  await checkScopes(context, route.needs, identity, request)
  const takesJson =
    route.receive === undefined && (route.body !== undefined || splitKey(route.key).method === 'POST')
  let body: unknown
  const sent: Sent = {
    params: pathParams(request.params),
    ...readQuery(request),
    body: async (entry) => (takesJson ? (body = await bodyOf(request, route, entry)) : undefined),
    idempotencyKey: () => idempotencyKey(route, request),
    ip: addressOf(request),
    requestId: requestIdOf(response),
    signal: () => goneSignal(response, services),
    identify: () => requireIdentity(context, services.auth, request),
  }
  try {
    await admitted({ route, context, services, identity, sent }, (call, entry, rawBody) =>
      answer(route, { request, response, call, entry, rawBody }),
    )
  } catch (error) {
    if (error instanceof ApiError && error.worked > leastCounted)
      await countRefused(context, identity, request, error.worked)
    throw withPlaces(error, body)
  }
}

/** Milliseconds of work for a refused body that are not counted. */
const leastCounted = 10

/** The refusal says whom to ask if no key of the person could have the scope, in the organization that the path names. */
async function checkScopes(
  { db }: Pick<Context, 'db'>,
  needs: Needs,
  { scopes, keyName, user, organizationId }: Identity,
  request: Request,
): Promise<void> {
  const { scope, further = [], subject } = needs
  try {
    requireScopes(scopes, needs, keyName)
  } catch (error) {
    const named = subject === 'organization' ? pathParams(request.params)['id'] : undefined
    const person = { userId: user.id, organizationId: named ?? organizationId, scopes }
    throw await sayRoleOfScope(db, person, [...(scope === null ? [] : [scope]), ...further], error)
  }
}

/**
 * Counts the thread's work for a refused body, so that many of them do not delay other organizations. The answer waits
 * for the organization's turn, and no more of the body is read, unless the client has gone.
 */
async function countRefused(
  { shares }: Pick<Context, 'shares'>,
  { charged }: Identity,
  request: Request,
  worked: number,
): Promise<void> {
  request.pause()
  const counted = shares.large.hold(charged.holderId, async (permit) => permit.adds(worked))
  // If too many requests of the organization wait already, the answer does not.
  const settled = counted.catch(() => undefined)
  if (!request.destroyed) await settled
}

interface Admitted {
  readonly request: Request
  readonly response: Response
  readonly call: Call
  readonly entry: Entry
  readonly rawBody: unknown
}

async function answer(route: Route, { request, response, call, entry, rawBody }: Admitted): Promise<void> {
  if (route.stream !== undefined) {
    if (request.method === 'HEAD') {
      await route.head?.(call, response)
      sendAnswer(response, { status: 200, body: undefined })
    } else await route.stream(call, request, response)
    return
  }
  const answered =
    route.receive === undefined
      ? await answerOnce(route, call, rawBody)
      : await answerReceived(route, call, request, entry)
  if (answered.replayed === true) response.setHeader('Idempotent-Replayed', 'true')
  entry.works()
  if (answered.body instanceof JsonParts) {
    entry.leave()
    await sendParts(response, answered.status, answered.body, call)
  } else sendAnswer(response, answered)
}

async function answerReceived(
  route: Route,
  call: Call,
  request: Request,
  entry: Entry,
): ReturnType<typeof answerOnce> {
  // A slow client must not hold a permit of its organization (fair-share.ts).
  entry.leave()
  const reading = createEntry(call.context.shares, call.identity.charged.holderId)
  const received = await (route.receive as NonNullable<Route['receive']>)(call, request, reading).finally(
    () => reading.leave(),
  )
  try {
    return await answerOnce(route, { ...call, body: received.body }, received.hashed)
  } finally {
    received.release()
  }
}

/**
 * A change of a quota is counted apart, for the organization in the path, so that an owner who set a limit too low can
 * raise it. Without the right to change it, it counts as a normal request.
 */
async function count(
  context: Pick<Context, 'db' | 'metrics' | 'rates' | 'sparseLog'>,
  { scope, role }: Needs,
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

/** A missing body counts as an empty object, but `null` does not. */
async function bodyOf(
  request: Request,
  { bodyLimit, bodyValues, takesYaml }: Route,
  entry: Entry,
): Promise<unknown> {
  const admit = (size: 'small' | 'large', worked: number) => entry.admit(size, worked)
  const body = await readJsonBody(request, bodyLimit, bodyValues, admit, takesYaml)
  return body === undefined ? {} : body
}

function idempotencyKey(route: Route, request: Request): string | null {
  const key = request.headers['idempotency-key']
  if (key === undefined || !acts(route)) return null
  if (typeof key === 'string' && /^[\x21-\x7e]{1,255}$/.test(key)) return key
  throw new ApiError(
    'bad_request',
    'an `Idempotency-Key` has 1 to 255 printable ASCII characters without spaces',
  )
}

const goneLocal = 'goneSignal'

/** Aborts when the client has gone, or the server stops. Shared, because one request can make many calls. */
export function goneSignal(response: Response, { draining }: Pick<Mounted, 'draining'>): AbortSignal {
  const known: unknown = response.locals[goneLocal]
  if (known instanceof AbortSignal) return known
  const gone = new AbortController()
  if (response.closed) gone.abort(clientGone)
  else response.once('close', () => gone.abort(clientGone))
  const signal = AbortSignal.any([gone.signal, draining])
  response.locals[goneLocal] = signal
  return signal
}

async function requireIdentity(
  context: Pick<Context, 'db' | 'keys'>,
  auth: Auth,
  request: Request,
): Promise<Identity> {
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
 * The sender of an agent's question. The identity of a key that asks often comes from a cache: key, scope and role are
 * checked again before the rules decide. An answer without this check needs `confirm` first, which looks up a cached
 * key again (docs/decisions/0049).
 */
async function asking(
  context: Pick<Context, 'db' | 'keys'>,
  auth: Auth,
  request: Request,
  scope: Scope | null,
): Promise<{ readonly identity: Identity; readonly confirm: () => Promise<void> }> {
  const anew = async (): Promise<Identity> => {
    const identity = await requireIdentity(context, auth, request)
    requireScope(identity.scopes, scope, identity.keyName)
    return identity
  }
  const { authorization } = request.headers
  const recalled = authorization === undefined ? null : await recall(context.keys, authorization)
  if (recalled === null && authorization !== undefined) throw unauthenticated()
  // The key may have got the scope after it was cached.
  if (recalled === null || (scope !== null && !covers(recalled.identity.scopes, scope)))
    return { identity: await anew(), confirm: async () => {} }
  const { identity, isRemembered } = recalled
  const confirm = async (): Promise<void> => {
    if (!isRemembered) return
    forget(context.keys, authorization)
    await anew()
  }
  return { identity, confirm }
}

/** With an `Authorization` header, the cookie is ignored. */
async function identify(
  context: Pick<Context, 'db' | 'keys'>,
  auth: Auth,
  request: Request,
): Promise<Identity | null> {
  if (request.headers.authorization !== undefined)
    return authenticate(context.keys, request.headers.authorization)
  const session = await auth.userOf(request)
  if (session === null) return null
  const wanted = request.headers['x-organization-id']
  return identityOfSession(context.db, session, typeof wanted === 'string' ? wanted : null)
}

const spans = {
  requests_per_minute: 'a minute',
  requests_per_day: 'a day',
  authorize_per_minute: 'a minute',
  agent_reports_per_minute: 'a minute',
  quota_changes_per_minute: 'a minute',
  deliveries_per_minute: 'a minute',
} as const
const words = {
  requests: 'requests',
  reports: 'reports',
  quota: 'changes of its quota',
} as const satisfies Partial<Record<Kind, string>>

function showRate(response: Response, { limit, remaining, resetAt }: Taken): void {
  response.setHeader('X-RateLimit-Limit', String(limit))
  response.setHeader('X-RateLimit-Remaining', String(remaining))
  response.setHeader('X-RateLimit-Reset', String(resetAt))
}

/**
 * Counts a request and sets the `X-RateLimit-*` headers. Throws `rate_limited` over the limit: that of requests, of
 * agents' reports, or of quota changes. Questions of agents are counted elsewhere, because one over the limit gets a
 * decision.
 */
export async function countRequest(
  context: Pick<Context, 'metrics' | 'rates' | 'sparseLog'>,
  response: Response,
  charged: Charged,
  kind: keyof typeof words,
): Promise<void> {
  const taken = await context.rates.take(charged.holderId, charged.limits, kind)
  showRate(response, taken)
  if (taken.allowed) return
  noteRefusal(context, charged.holderId, taken, requestIdOf(response))
  throw new ApiError(
    'rate_limited',
    `the organization is at its limit of ${taken.limit} ${words[kind]} ${spans[taken.bucket]}: try again later`,
    [
      {
        path: kind === 'reports' ? 'authorize_per_minute' : taken.bucket,
        message: `the limit is ${taken.limit}`,
      },
    ],
    taken.retryAfter,
  )
}

type Handle = NonNullable<Route['handle']>
type TextAnswer = Answer & { readonly text?: string | null; readonly replayed?: boolean }

/** The text is part of a database index, whose rows have a maximum size: so a hash in place of a long one. */
function routeText({ key }: Route, { params }: Call): string {
  const text = `${key} ${JSON.stringify(params)}`
  return text.length > 200 ? `${key} sha256:${sha256(text)}` : text
}

/** Not stored, because the same call may get another answer a moment later. */
const passing = new Set<number>([statusOf.rate_limited, statusOf.unauthenticated])

/**
 * Runs the handler once for each `Idempotency-Key`. Stores answers below 500, also refusals, except 401, 429 and very
 * large ones. After an answer that was not stored, the key can be used again.
 */
export async function answerOnce(route: Route, call: Call, sent: unknown): Promise<TextAnswer> {
  const handle: Handle = (each) => (route.handle as Handle)(each)
  const { idempotencyKey: key, caller, context } = call
  if (key === null) return handle(call)
  const opening = await openKey(context, {
    // A route with the subject `nothing` belongs to no organization.
    organizationId: route.needs?.subject === 'nothing' ? '' : caller.organizationId,
    userId: caller.userId,
    apiKeyId: caller.keyId ?? (await kindOfSession(context.db, caller)),
    // Not the path of the request: a prefix, a slash at the end or other percent-encoding makes no difference.
    route: routeText(route, call),
    key,
    bodyHash: hashOf(sent),
  })
  if ('replay' in opening)
    return { status: opening.replay.status, body: undefined, text: opening.replay.body, replayed: true }
  return handleClaimed(call, handle, opening.claim, call.requestId)
}

/**
 * A person's sessions share their keys. But with and without a second factor, and bound to an organization, they have
 * different rights, so an answer to one kind is never given to the other. The id of an API key begins with `key_`.
 */
async function kindOfSession(db: Db, caller: Caller): Promise<string> {
  const { rows } = await sql<{ backed: boolean }>`select ${isBackedByFactor(caller)} as backed`.execute(db)
  const kind = rows[0]?.backed === true ? 'session with factor' : 'session'
  return caller.boundTo === null ? kind : `bound ${kind}`
}

async function handleClaimed(
  call: Call,
  handle: Handle,
  claim: Claim,
  requestId: string,
): Promise<TextAnswer> {
  try {
    const answer = await handle({ ...call, once: claim })
    if (answer.body instanceof JsonParts) {
      const within = await textWithin(answer.body, mostKeptLength)
      // Too large to store, so a repeated call runs again.
      if ('parts' in within) {
        await claim.release().catch(() => {})
        return { ...answer, body: within.parts }
      }
      await keepIfPossible(call, claim, { status: answer.status, body: within.text })
      return { status: answer.status, body: undefined, text: within.text }
    }
    const text = jsonText(answer.body)
    await keepIfPossible(call, claim, { status: answer.status, body: text })
    return { ...answer, text }
  } catch (error) {
    const apiError = toApiError(error)
    const status = statusOf[apiError.code]
    if (status < 500 && !passing.has(status))
      await keepIfPossible(call, claim, { status, body: JSON.stringify(errorBody(apiError, requestId)) })
    else await claim.release().catch(() => {})
    throw error
  }
}

/** The handler has already made its change, so a failure is only logged. */
async function keepIfPossible(
  call: Call,
  claim: Claim,
  answer: { status: number; body: string | null },
): Promise<void> {
  try {
    await claim.keep(answer)
  } catch (error) {
    call.context.log.warn({ err: error }, 'the answer to an idempotent call was not kept')
  }
}
