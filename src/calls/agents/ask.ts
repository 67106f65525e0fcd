import type { Context, Changing } from '../../governance/context.ts'
import type { ToolAnnotations } from '../../policy/agent-tools.ts'
import type { JsonObject } from '../../policy/types.ts'
import { canonicalJson } from '../../shared/canonical-json.ts'
import { violates } from '../../db/errors.ts'
import { senderOf, type Caller, type Identity } from '../../governance/access/identity.ts'
import { roleUnderLock } from '../../governance/access/recheck.ts'
import { agentApprovalSeconds } from '../../governance/approvals/records.ts'
import { counted, heapBytes } from '../../shared/byte-cache.ts'
import { effectiveLimits } from '../../contract/plan-limits.ts'
import { storageOver } from '../../governance/limits/storage.ts'
import { noteRefusal, type Taken } from '../../governance/limits/rates.ts'
import { hasRole } from '../../governance/access/scopes.ts'
import { authorizeCalls } from './authorize.ts'
import { readCall, type Surroundings } from './classify.ts'
import { callHash, hashOfCall } from './same-call.ts'
import { unrecorded, type AgentDecision } from './call.ts'

interface AgentRequest extends Surroundings {
  readonly agent: { readonly name: string; readonly kind: string }
  readonly session_id: string
  readonly tool_name: string
  readonly tool_input: JsonObject
  readonly organization_id?: string | undefined
  readonly tool_use_id?: string | undefined
  readonly annotations?: ToolAnnotations | undefined
}

export interface Asker {
  readonly identity: Identity
  readonly ip: string | null
  readonly requestId?: string
}

/** `runAs` checks the needed scope and role under the chain lock. */
export function callerIn({ identity, ip, requestId }: Asker, organizationId: string): Caller {
  const { user, keyId, sessionId, boundTo, scopes } = identity
  return {
    userId: user.id,
    email: user.email,
    organizationId,
    role: 'member',
    keyId,
    sessionId,
    boundTo,
    scopes,
    needs: { scope: 'agents:authorize', role: 'member' },
    ip,
    ...(requestId === undefined ? {} : { requestId }),
  }
}

/** A try fails if a concurrent question has opened the same agent session in another organization. */
const mostTries = 3

/**
 * A person without the right to ask gets a `deny`, because fail-open clients let a call pass after an error.
 * Throws only if no decision can be made, e.g. because the database cannot be reached.
 */
export async function authorize(
  context: Pick<
    Context,
    'agentSessions' | 'combiner' | 'config' | 'db' | 'metrics' | 'rates' | 'sealer' | 'sparseLog'
  >,
  asker: Asker,
  request: AgentRequest,
): Promise<AgentDecision> {
  const { user, keyId } = asker.identity
  const call = readCall(request.tool_name, request.tool_input, request.annotations ?? {}, request)
  const input = canonicalJson(call.covered)
  const paramsHash = hashOfCall(request.tool_name, input)
  const inputHash =
    call.covered === request.tool_input ? null : callHash(request.tool_name, request.tool_input)
  for (let tries = 1; ; tries += 1) {
    const organizationId = await organizationOf(context, asker.identity, request)
    if (organizationId === '') return nowhere()
    if (!isWithin(asker.identity, organizationId)) return outside()
    const limited = await limitedElsewhere(context, asker, organizationId)
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
        actor: { type: 'user', id: user.id, apiKeyId: keyId, ip: asker.ip, requestId: asker.requestId },
        keyMadeBy: asker.identity.keyMadeBy ?? null,
        named: request.organization_id ?? null,
        call,
        params: call.covered,
        inputHash,
        weight: input.length,
        seal,
        input,
        mustBeConfirmed: context.config.people.mustBeConfirmed,
        approvalSeconds: agentApprovalSeconds,
        limitNotedAt: context.agentSessions.limitNotedAt,
      })
    } catch (error) {
      // A concurrent question has opened this session in another organization. The next try reads it.
      if (tries === mostTries || !violates(error, 'agent_sessions_name')) throw error
      context.agentSessions.organizations.delete(sessionName(asker.identity, request.session_id))
    }
  }
}

/** Counts each question once for each organization. Only members use up an organization's rate. */
async function limitedElsewhere(
  context: Pick<Context, 'db' | 'metrics' | 'rates' | 'sparseLog'>,
  { identity: { charged, user }, requestId }: Asker,
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
  if (taken.allowed) return null
  noteRefusal(context, organizationId, taken, requestId)
  return rateLimited(taken)
}

export const rateLimited = ({ limit, retryAfter }: Taken): AgentDecision =>
  unrecorded(
    'rate limited',
    `The organization is at its limit of ${limit} agents' questions a minute: try again in ${retryAfter} seconds.`,
  )

const sessionName = (identity: Identity, sessionId: string): string => `${identity.user.id}\n${sessionId}`

/**
 * A new session belongs to the organization that the request names, if the person is a member there, or else
 * to `identity.organizationId`. This id is '' if the asker uses no key and belongs to no organization.
 */
export async function organizationOf(
  { db, agentSessions: { organizations } }: Pick<Context, 'agentSessions' | 'db'>,
  identity: Identity,
  { session_id, organization_id }: Pick<AgentRequest, 'session_id' | 'organization_id'>,
): Promise<string> {
  const name = sessionName(identity, session_id)
  const known = organizations.get(name)
  if (known !== undefined) return known
  const session = await db
    .selectFrom('agent_sessions')
    .select('organization_id')
    .where('user_id', '=', identity.user.id)
    .where('session_id', '=', session_id)
    .executeTakeFirst()
  if (session !== undefined) {
    organizations.set(name, session.organization_id, counted(heapBytes(name)))
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

const isWithin = ({ boundTo }: Identity, organizationId: string): boolean =>
  boundTo === null || boundTo === organizationId

const outside = (): AgentDecision =>
  unrecorded(
    'another organization',
    'This key acts only in the organization whose provider opened the sign-in that made it: use a key of the organization that this session or call names.',
  )

const nowhere = (): AgentDecision =>
  unrecorded('no organization', 'The person this agent acts for belongs to no organization.')

/**
 * No agent session is known, so the denial goes to the audit log of the asker's organization. It is written
 * only if storage is left and the person may ask there. Otherwise the person could fill the audit log. `why`
 * must not quote the request.
 */
export async function denyUnreadable(context: Changing, asker: Asker, why: string): Promise<AgentDecision> {
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
      actor: { type: 'user', id: user.id, apiKeyId: keyId, ip: asker.ip, requestId: asker.requestId },
      metadata: { decision_id: denied.decision_id },
    })
  })
  return denied
}
