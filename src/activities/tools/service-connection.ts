import type { ToolName } from '../../catalog/index.ts'
import type { Connectable } from '../../catalog/integrations/index.ts'
import type { Context } from '../../governance/context.ts'
import { expireConnection } from '../../governance/connections/connections.ts'
import { credentialFor } from '../../governance/connections/credential.ts'
import { SecretsUnavailable } from '../../governance/sealing/secrets-backend.ts'
import {
  connectionExpired,
  expiredMessage,
  notConnectedMessage,
  toolNotAvailable,
} from '../../governance/tools/connections.ts'
import { ToolError, type ServiceConnection, type ToolCall } from './executor.ts'

/** See `ToolServices.connection`. */
export async function connectionOfCall<Name extends Connectable>(
  context: Context,
  { organizationId, requester }: Pick<ToolCall<unknown>, 'organizationId' | 'requester'>,
  tool: ToolName,
  integration: Name,
): Promise<ServiceConnection<Name>> {
  const found = await credentialFor(context, {
    organizationId,
    requesterId: requester.userId,
    integration,
  }).catch((error: unknown) => {
    if (!(error instanceof SecretsUnavailable)) throw error
    throw new ToolError('secrets_unavailable', error.message, { retryable: true, cause: error })
  })
  const expired = (): ToolError =>
    new ToolError(connectionExpired, expiredMessage(tool, integration), { retryable: false })
  if (found === 'expired') throw expired()
  if (found === 'not_connected')
    throw new ToolError(toolNotAvailable, notConnectedMessage(tool, integration), { retryable: false })
  const { connection, credential, headers, addresses } = found
  const room = (bytes: number, signal: AbortSignal) =>
    context.runCaches.answers.acquire(organizationId, bytes, { alone: false, signal })
  return {
    credential,
    account: connection.account,
    base: addresses[0],
    headers,
    fetchWithin: (bounds) => context.outgoing.fetchWithin({ ...bounds, addresses, room }),
    async expired() {
      await expireConnection(context, connection)
      return expired()
    },
  }
}
