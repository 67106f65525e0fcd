import { z } from 'zod'
import { organizationsOf } from '../../governance/access/recheck.ts'
import { revokeSession } from '../../governance/agents/end.ts'
import { listSessions, readSession } from '../../governance/agents/read.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { filter } from '../query.ts'
import { ok, route } from '../route.ts'
import { agentSession, revokeBody, sessionStatus } from '../schemas/agents.ts'
import { listOf, listQuery } from '../schemas/common.ts'

const tag = 'Agents'

const getSessions = route({
  key: 'GET /agent-sessions',
  summary: 'The agent sessions of your organizations, newest first',
  description:
    'Without `organization_id`: the sessions of every organization in which you have the role `admin`. A key also needs this role in its own organization.',
  tag,
  query: z.object({
    ...listQuery.shape,
    status: sessionStatus.optional(),
    user_id: filter.optional(),
    session_id: filter.optional(),
  }),
  responses: { 200: listOf(agentSession) },
  async handle({ context, caller, identity, query }) {
    const { limit, cursor = null, organization_id: named, ...filters } = query
    const isNamed = (named ?? identity.wanted) !== null
    const organizations = isNamed
      ? [caller.organizationId]
      : await organizationsOf(context.db, caller, caller.needs.role)
    // The list is empty if the caller has lost the role since it was checked.
    if (organizations.length === 0) return ok({ data: [], next_cursor: null })
    return ok(await listSessions(context.db, organizations, filters, { limit, cursor }))
  },
})

const getSession = route({
  key: 'GET /agent-sessions/{id}',
  summary: 'One agent session with its labels and where they came from',
  tag,
  responses: { 200: agentSession },
  async handle({ context, caller, params }) {
    return ok(await readSession(context.db, caller.organizationId, params.id))
  },
})

const postRevoke = route({
  key: 'POST /agent-sessions/{id}/revoke',
  summary: 'Revoke a session for good: every later call is denied, and its pending approvals are cancelled',
  tag,
  body: revokeBody,
  responses: { 200: agentSession },
  async handle({ context, caller, params, body, once }) {
    await actOnce(once, () => revokeSession(context, caller, params.id, body.reason, once))
    return ok(await readSession(context.db, caller.organizationId, params.id))
  },
})

export const agentSessionRoutes = [getSessions, getSession, postRevoke]
