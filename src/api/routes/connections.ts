import { z } from 'zod'
import { beginAuthorization } from '../../governance/connections/authorize.ts'
import {
  connect,
  listConnections,
  renameConnection,
  revokeConnection,
} from '../../governance/connections/connections.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { organizationQuery } from '../query.ts'
import { accepted, created, noContent, ok, route } from '../route.ts'
import { getCallback } from './connection-callback.ts'
import { id, listOf, listQuery, time } from '../schemas/common.ts'
import { connectBody, connectionChanges, connectionScope, integration } from '../schemas/connections.ts'

const connection = z
  .strictObject({
    id,
    organization_id: id,
    integration,
    scope: connectionScope,
    owner_id: id.nullable().describe('The person of a personal connection.'),
    name: z.string(),
    account: z.string().nullable().describe('As the service names it; null if it does not say.'),
    destination: z.string().describe('The host to which calls go, with the port if it is not the default.'),
    own_host: z
      .boolean()
      .describe('Whether this host is the service’s own, or one that the operator has set for the service.'),
    created_at: time,
    last_used_at: time.nullable(),
    status: z
      .enum(['active', 'expired', 'revoked'])
      .describe('`expired`: the service no longer accepts the credential; connect again.'),
  })
  .meta({ id: 'Connection' })

const begun = z
  .strictObject({
    authorization_url: z.string().describe('Open it in a browser where you are signed in to this service.'),
    expires_at: time,
  })
  .meta({ id: 'BegunAuthorization' })

const postConnect = route({
  key: 'POST /tools/{name}/connect',
  summary: 'Connect a tool, and with it all tools of the same service',
  description:
    'The credential is checked with a harmless call to the service, where it has one. It replaces the connection of the same scope. `personal` serves your own runs; `organization` serves all runs and needs an admin. So does an address that is not the service’s own, and the operator must name its host (`CONNECTION_HOSTS`). Without `credential`, the answer is 202 with the address at which you authorize the connection in your browser, signed in as the same person (Google).',
  tag: 'Connections',
  query: organizationQuery,
  body: connectBody,
  responses: { 201: connection, 202: begun },
  // The handler waits for the external service before it saves anything.
  waits: true,
  async handle({ context, caller, params, body, signal, once }) {
    const { credential, ...rest } = body
    const input = { tool: params.name, scope: rest.scope, name: rest.name }
    if (credential === undefined)
      return accepted(await actOnce(once, () => beginAuthorization(context, caller, input, once)))
    const whole = { ...input, credential }
    return created(await actOnce(once, () => connect(context, caller, whole, signal, once)))
  },
})

const getConnections = route({
  key: 'GET /connections',
  summary: 'The connections of the organization and your own; an admin sees those of all members',
  tag: 'Connections',
  query: listQuery,
  responses: { 200: listOf(connection) },
  async handle({ context, caller, query }) {
    return ok(await listConnections(context.db, caller, { limit: query.limit, cursor: query.cursor ?? null }))
  },
})

const patchConnection = route({
  key: 'PATCH /connections/{id}',
  summary: 'Rename a connection of yours, or as an admin one of the organization',
  tag: 'Connections',
  body: connectionChanges,
  responses: { 200: connection },
  async handle({ context, caller, params, body }) {
    return ok(await renameConnection(context, caller, params.id, body.name))
  },
})

const deleteConnection = route({
  key: 'DELETE /connections/{id}',
  summary: 'Revoke a connection: no call uses it from now on, and its credential is deleted',
  tag: 'Connections',
  responses: { 204: null },
  // After the revocation the handler may have to wait for the external service.
  waits: true,
  async handle({ context, caller, params }) {
    await revokeConnection(context, caller, params.id)
    return noContent
  },
})

export const connectionRoutes = [postConnect, getCallback, getConnections, patchConnection, deleteConnection]
