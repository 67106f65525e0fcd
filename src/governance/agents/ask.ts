import type { Context } from '../../context.ts'
import type { ToolAnnotations } from '../../policy/agent-tools.ts'
import type { JsonObject } from '../../policy/types.ts'
import { canonicalJson } from '../canonical.ts'
import { violates } from '../database-errors.ts'
import { senderOf, type Caller, type Identity } from '../identity.ts'
import { roleUnderLock } from '../people/members.ts'
import { heapBytes, Recent } from '../recent.ts'
import { effectiveLimits } from '../quotas/limits.ts'
import { storageOver } from '../quotas/storage.ts'
import type { Taken } from '../rates/rates.ts'
import { hasRole } from '../scopes.ts'
import { agentInputPlace } from '../sealing/places.ts'
import { authorizeCalls } from './authorize.ts'
import { readCall } from './classify.ts'
import { hashOfCall } from './same-call.ts'
import { unrecorded, type AgentDecision } from './unrecorded.ts'

/** What an agent asks before it calls a tool (contract section 7), read and checked. */
export interface AgentRequest {
  readonly agent: { readonly name: string; readonly kind: string }
  readonly session_id: string
  readonly tool_name: string
  readonly tool_input: JsonObject
  readonly organization_id?: string | undefined
  readonly tool_use_id?: string | undefined
  readonly annotations?: ToolAnnotations | undefined
}

/** Who asks, from where. */
export interface Asker {
  readonly identity: Identity
  readonly ip: string | null
}

/** The asker acting in this organization: `runAs` asks under the lock for the rights that a question needs. */
export function callerIn({ identity, ip }: Asker, organizationId: string): Caller {
  const { user, keyId, sessionId, scopes } = identity
  return {
    userId: user.id,
    email: user.email,
    organizationId,
    role: 'member',
    keyId,
    sessionId,
    scopes,
    needs: { scope: 'agents:authorize', role: 'member' },
    ip,
  }
}

/** An agent's approval waits for an hour unless its rule says otherwise (contract section 6). */
const approvalSeconds = 3_600

/** How often it is tried again to find the organization of a session that another process opens just now. */
const mostTries = 3

/**
 * Decides one call of an agent (specification, "Authorization interface"). Whoever may not ask, or asks in a wrong
 * organization, gets a `deny`, never an error: fail-open clients would let errors pass. Throws only what is no answer:
 * the database is gone.
 */
export async function authorize(
  context: Context,
  asker: Asker,
  request: AgentRequest,
): Promise<AgentDecision> {
  const { user, keyId } = asker.identity
  const input = canonicalJson(request.tool_input)
  const paramsHash = hashOfCall(request.tool_name, input)
  const call = readCall(request.tool_name, request.tool_input, request.annotations ?? {})
  for (let tries = 1; ; tries += 1) {
    const organizationId = await organizationOf(context, asker.identity, request)
    if (organizationId === '') return nowhere()
    const limited = await limitedElsewhere(context, asker.identity, organizationId)
    if (limited !== null) return limited
    const seal = await context.sealer.sealing()
    try {
      return await context.combiner.join(organizationId, authorizeCalls, {
        key: {
          userId: user.id,
          sessionId: request.session_id,
          paramsHash,
          toolUseId: request.tool_use_id ?? null,
          by: senderOf(asker.identity),
        },
        agent: request.agent,
        actor: { type: 'user', id: user.id, apiKeyId: keyId, ip: asker.ip },
        named: request.organization_id ?? null,
        call,
        params: request.tool_input,
        weight: input.length,
        seal: (approvalId) => seal(agentInputPlace(approvalId), input),
        mustBeConfirmed: context.config.people.mustBeConfirmed,
        approvalSeconds,
      })
    } catch (error) {
      // Opened at this moment in another organization: it belongs there.
      if (tries === mostTries || !violates(error, 'agent_sessions_name')) throw error
      bound.delete(boundName(asker.identity, request.session_id))
    }
  }
}

/**
 * A key's own organization has counted the question: another one in which it is decided counts it too, of its members;
 * nobody else uses up what they may ask.
 */
async function limitedElsewhere(
  context: Context,
  { charged, user }: Identity,
  organizationId: string,
): Promise<AgentDecision | null> {
  if (charged.holderId === organizationId) return null
  const row = await context.db
    .selectFrom('memberships as m')
    .innerJoin('organizations as o', 'o.id', 'm.organization_id')
    .select(['o.plan', 'o.quota_overrides'])
    .where('o.id', '=', organizationId)
    .where('m.user_id', '=', user.id)
    .executeTakeFirst()
  if (row === undefined) return null
  const limits = effectiveLimits(row.plan, row.quota_overrides)
  const taken = await context.rates.take(organizationId, limits, 'authorize')
  return taken.allowed ? null : rateLimited(taken)
}

/** A denial over an organization's limit of agents' questions. */
export const rateLimited = ({ limit, retryAfter }: Taken): AgentDecision =>
  unrecorded(
    'rate limited',
    `The organization is at its limit of ${limit} agents' questions a minute: try again in ${retryAfter} seconds.`,
  )

/** Organizations of sessions, by person and session: a session never moves. */
const bound = new Recent<string>(8 * 1024 * 1024)
const boundName = (identity: Identity, sessionId: string): string => `${identity.user.id}\n${sessionId}`

/**
 * Where a session belongs: the organization it started in; a new one to that which the request names, if the person is
 * a member there, else to the key's.
 */
export async function organizationOf(
  { db }: Context,
  identity: Identity,
  { session_id, organization_id }: Pick<AgentRequest, 'session_id' | 'organization_id'>,
): Promise<string> {
  const name = boundName(identity, session_id)
  const known = bound.get(name)
  if (known !== undefined) return known
  const session = await db
    .selectFrom('agent_sessions')
    .select('organization_id')
    .where('user_id', '=', identity.user.id)
    .where('session_id', '=', session_id)
    .executeTakeFirst()
  if (session !== undefined) {
    bound.set(name, session.organization_id, heapBytes(name))
    return session.organization_id
  }
  if (organization_id === undefined || organization_id === identity.organizationId)
    return identity.organizationId
  const member = await db
    .selectFrom('memberships')
    .select('organization_id')
    .where('user_id', '=', identity.user.id)
    .where('organization_id', '=', organization_id)
    .executeTakeFirst()
  return member?.organization_id ?? identity.organizationId
}

const nowhere = (): AgentDecision =>
  unrecorded('no organization', 'The person this agent acts for belongs to no organization.')

/**
 * A denial of a request that could not be read, so that it belongs to no session: kept in the audit log of the key's
 * organization, if its person may ask there: nobody else's questions fill its log. `why` never quotes the request.
 */
export async function denyUnreadable(context: Context, asker: Asker, why: string): Promise<AgentDecision> {
  const { user, keyId, organizationId } = asker.identity
  const denied = unrecorded('unreadable request', `The request cannot be read, so it is denied: ${why}.`)
  if (organizationId === '') return denied
  await context.combiner.run(organizationId, 'agent.decide', async (tx) => {
    const role = await roleUnderLock(tx, user.id)
    if (role === null || !hasRole(role, 'member') || storageOver(tx) !== null) return
    tx.append({
      eventType: 'agent_call.unreadable',
      action: 'authorize',
      status: 'deny',
      actor: { type: 'user', id: user.id, apiKeyId: keyId, ip: asker.ip },
      metadata: { decision_id: denied.decision_id },
    })
  })
  return denied
}
