import type { Context, Reading, Configured } from '../governance/context.ts'
import { type Caller, type Identity } from '../governance/access/identity.ts'
import { organizationsOf } from '../governance/access/recheck.ts'
import { requireBound, requireFactor } from '../governance/access/second-factor.ts'
import { hasRole, scopesOfRole } from '../governance/access/scopes.ts'
import { sayWhomToAsk } from '../governance/access/whom-to-ask.ts'
import { createEntry, type Entry } from '../governance/limits/shares.ts'
import { requireScopes, tooLow } from '../governance/access/recheck.ts'
import { ApiError, statusOf, toApiError, validate } from './errors.ts'
import {
  innerObjectsOf,
  organizationNamed,
  requireOneOrganization,
  requireSubjectsOrganization,
  findMissingToKey,
  findStanding,
  refuseAbsent,
  requireOwnObjects,
  withWorkflowId,
  type InnerObject,
} from './subjects.ts'
import { queryOf, refuseRepeated } from './query.ts'
import type { Call, GuardedRoute, Mounted, Needs } from './route.ts'

/** What the checks read of a request, over HTTP or from a page of the console. */
export interface Sent {
  readonly params: Record<string, string>
  readonly query: Record<string, string>
  readonly repeated: string | null
  body(entry: Entry): Promise<unknown>
  idempotencyKey(): string | null
  readonly ip: string | null
  readonly requestId: string
  /** Aborts when the client has disconnected or the server drains. */
  signal(): AbortSignal
  /** Again, while an answer takes long. Throws `unauthenticated`. */
  identify(): Promise<Identity>
}

interface Arrived {
  readonly route: GuardedRoute
  readonly context: Context
  readonly services: Mounted
  readonly identity: Identity
  readonly sent: Sent
}

/**
 * Checks a request, and runs `work`. A process works on a limited number of one organization's requests at a time (its
 * share, fair-share.ts): this one waits for a permit, and keeps it until it ends or `leave` is called.
 */
export async function admitted<T>(
  arrived: Arrived,
  work: (call: Call, entry: Entry, rawBody: unknown) => Promise<T>,
): Promise<T> {
  const { context, identity, route } = arrived
  const entry = createEntry(context.shares, identity.charged.holderId)
  try {
    const { call, rawBody } = await checked(arrived, entry)
    // A stream waits for its client, and a route with `waits` for work outside this thread, so they give their permit
    // back. A handler that begins to wait later calls `leaveShare`.
    if (route.stream !== undefined || route.waits) entry.leave()
    return await work(call, entry, rawBody).catch(async (error: unknown) => {
      throw await sayWhomToAsk(context.db, call.caller.organizationId, error)
    })
  } finally {
    entry.leave()
  }
}

async function checked(
  { route, context, services, identity, sent }: Arrived,
  entry: Entry,
): Promise<{ readonly call: Call; readonly rawBody: unknown }> {
  const { needs } = route
  const { query, ip, requestId } = sent
  const rawBody = await sent.body(entry)
  await entry.admit('small')
  const organizationId =
    organizationNamed(query, rawBody) ?? identity.wanted ?? (await homeIn(context, identity, needs))
  const params =
    needs.subject === 'workflow'
      ? await withWorkflowId(context.db, identity, sent.params, organizationId)
      : sent.params
  const naming = { params, organizationId }
  const inner = innerObjectsOf(route.inner ?? [], { params, query, body: rawBody })
  const caller = { ...(await standIn(context, identity, { ...needs, inner }, ip, naming)), requestId }
  entry.works()
  refuseRepeated(sent.repeated)
  requireOneOrganization(query, rawBody)
  if (needs.subject !== 'nothing') requireSubjectsOrganization(query, rawBody, caller)

  const callerNow = async (): Promise<Caller> => {
    const now = await sent.identify()
    requireScopes(now.scopes, needs, now.keyName)
    return { ...(await standIn(context, now, needs, ip, naming)), requestId }
  }
  const call: Call = {
    context,
    services,
    identity,
    caller,
    params,
    query: validate(queryOf(route), query, 'the query'),
    body:
      route.body === undefined || route.receive !== undefined
        ? undefined
        : validate(route.body, rawBody, 'the body'),
    idempotencyKey: sent.idempotencyKey(),
    requestId,
    once: null,
    signal: sent.signal(),
    leaveShare: () => entry.leave(),
    callerNow,
    stillAllowed: async () => {
      try {
        await callerNow()
        return true
      } catch (error) {
        // An error of the server does not mean that the caller has lost the rights.
        if (statusOf[toApiError(error).code] >= 500) throw error
        return false
      }
    },
  }
  return { call, rawBody }
}

/** For a request that names none. For `every` organization of a person, the first with the needed role. */
async function homeIn({ db }: Reading, identity: Identity, { every, role }: Needs): Promise<string> {
  const [first] = every === true && identity.keyId === null ? await organizationsOf(db, identity, role) : []
  return first ?? identity.organizationId
}

/** Throws if a required second factor or an inner object is missing, or if the role is too low. */
async function standIn(
  context: Configured,
  identity: Identity,
  {
    subject,
    role,
    scope,
    further = [],
    factor = false,
    inner = [],
  }: Needs & { readonly inner?: readonly InnerObject[] },
  ip: string | null,
  naming: { params: Record<string, string>; organizationId: string },
): Promise<Caller> {
  if (subject === 'nothing') await requireOwnObjects(context.db, identity, inner)
  const senderRights =
    subject === 'nothing'
      ? // A call that is only about the caller needs only the lowest role. A signed-in person may always read who they
        // are and where to enrol a second factor. So a sign-in session needs no second factor here. A key may need one.
        {
          organizationId: identity.organizationId,
          role: 'viewer' as const,
          missing: identity.keyId === null ? null : await findMissingToKey(context.db, identity),
          absent: null,
        }
      : await findStanding(context.db, identity, { subject, factor, inner }, naming)
  if (subject !== 'nothing') requireBound(context.config, identity, senderRights.organizationId)
  requireFactor(context.config, { scope, factor }, senderRights.missing, identity)
  // Names such as the keys of memory can be guessed: without a required factor, a sender does not learn which exist.
  refuseAbsent(senderRights.absent)
  if (subject !== 'nothing' && !hasRole(senderRights.role, role))
    throw await sayWhomToAsk(context.db, senderRights.organizationId, tooLow(senderRights.role, role))
  return {
    userId: identity.user.id,
    email: identity.user.email,
    organizationId: senderRights.organizationId,
    role: senderRights.role,
    keyId: identity.keyId,
    keyMadeBy: identity.keyMadeBy ?? null,
    sessionId: identity.sessionId,
    boundTo: identity.boundTo,
    scopes: identity.keyId === null ? scopesOfRole(senderRights.role) : identity.scopes,
    needs: { scope, further, role, factor },
    ip,
  }
}

/** As text. Throws `not_found` for a NUL character, which PostgreSQL cannot compare. */
export function pathParams(given: Readonly<Record<string, unknown>>): Record<string, string> {
  const params: Record<string, string> = {}
  for (const [name, value] of Object.entries(given)) {
    const text = String(value)
    if (text.includes('\u0000')) throw new ApiError('not_found', 'no name contains NUL characters')
    params[name] = text
  }
  return params
}
