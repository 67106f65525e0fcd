import type { Request, Response } from 'express'
import type { Context } from '../governance/context.ts'
import { roleIn, type Identity } from '../governance/access/identity.ts'
import { covers, hasRole } from '../governance/access/scopes.ts'
import { JsonParts } from '../shared/json-parts.ts'
import type { Taken } from '../governance/limits/rates.ts'
import { createEntry, withShare, type Entry } from '../governance/limits/request-shares.ts'
import { requireScopes } from '../governance/access/recheck.ts'
import { nextTurn } from '../shared/time-slices.ts'
import { acts, accessOf, splitKey } from './access.ts'
import { admitted, pathParams, type Guarded, type Sent } from './admitted.ts'
import { addressOf } from './client-address.ts'
import { ApiError } from './errors.ts'
import { answerOnce } from './idempotent.ts'
import { readJsonBody } from './json-body.ts'
import { queryOf, readQuery, refuseRepeated } from './query.ts'
import { countRequest, showRate } from './rate.ts'
import { requestIdOf } from './request-id.ts'
import { clientGone, type Call, type Mounted, type Route } from './route.ts'
import { sendAnswer, sendParts } from './send.ts'
import { asking, requireIdentity } from './sender.ts'
import { validate } from './validation.ts'

/**
 * Checks one request by the access table, and answers it. The first failed check decides the error. The checks have
 * this order: 401, `rate_limited`, `missing_scope`, a body that cannot be read, 404 of the subject,
 * `mfa_required`, 404 of an object inside the subject, `insufficient_role`, 422. Errors of the handler come last.
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
    const { query, repeated } = readQuery(request)
    refuseRepeated(repeated)
    validate(queryOf(route), query, 'the query')
    const answer = await route.open?.(context, services, request, response)
    if (answer) sendAnswer(response, answer)
    return
  }
  if (route.ask !== undefined) {
    await nextTurn()
    const { identity, confirm } = await asking(context, services.auth, request, access.scope)
    // `signal` is a function and not a getter. For each object with a getter, V8 makes a hidden class. This class would
    // keep the whole request in memory until the next full garbage collection.
    const signal = (): AbortSignal => goneSignal(response, services)
    const asker = { identity, ip: addressOf(request), requestId: requestIdOf(response) }
    const show = (taken: Taken): void => showRate(response, taken)
    sendAnswer(response, await route.ask({ context, asker, confirm, showRate: show, signal }, request))
    return
  }
  const identity = await requireIdentity(context, services.auth, request)
  try {
    await count(context, access, identity, request, response)
  } catch (error) {
    await withShare(context.shares, identity.charged.holderId, 'refusal', async () => {})
    throw error
  }
  requireScopes(identity.scopes, access, identity.keyName)
  const takesJson =
    route.receive === undefined && (route.body !== undefined || splitKey(route.key).method === 'POST')
  const sent: Sent = {
    params: pathParams(request.params),
    ...readQuery(request),
    body: (entry) => (takesJson ? bodyOf(request, route, entry) : Promise.resolve(undefined)),
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
    throw error
  }
}

/** If the thread worked for a refused body for at most this many milliseconds, the work is not counted. */
const leastCounted = 10

/**
 * Counts the thread's work for a refused body in the organization's share, so that many refused bodies do not delay
 * other organizations. The answer waits for the organization's turn, and no more of the body is read meanwhile. If the
 * client has gone, this function does not wait.
 */
async function countRefused(
  { shares }: Pick<Context, 'shares'>,
  { charged }: Identity,
  request: Request,
  worked: number,
): Promise<void> {
  request.pause()
  const counted = withShare(shares, charged.holderId, 'large', async (place) => place.adds(worked))
  // If too many requests of the organization wait already, the answer does not wait.
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

/** Runs the handler of a request that has passed all checks, and sends its answer. */
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

/** Answers a request whose body is not JSON. */
async function answerReceived(
  route: Route,
  call: Call,
  request: Request,
  entry: Entry,
): ReturnType<typeof answerOnce> {
  // A request must hold no place in the organization's share (request-shares.ts) while a slow client sends its body.
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
 * Counts the request for the sender's organization. A change of a quota is counted apart, for the organization in the
 * path. So if an owner has set a limit too low, the owner can still raise the limit. If the sender has no right to
 * change this quota, the attempt counts as a normal request.
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

/** Reads the JSON body. A missing body counts as an empty object, but the JSON value `null` does not. */
async function bodyOf(request: Request, { bodyLimit, bodyValues }: Route, entry: Entry): Promise<unknown> {
  const body = await readJsonBody(request, bodyLimit, bodyValues, (size, worked) => entry.admit(size, worked))
  return body === undefined ? {} : body
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

/** The field of `response.locals` that holds the signal of the request. */
const goneLocal = 'goneSignal'

/**
 * Returns the signal that aborts when the client has gone, or when the server stops. All calls for one response share
 * one signal, because one request can make many calls: a person may decide about many approvals at once.
 */
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
