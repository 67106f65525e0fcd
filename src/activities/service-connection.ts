import type { Connectable, ToolName } from '../tools/index.ts'
import type { Context } from '../governance/context.ts'
import { expireConnection } from '../governance/connections/connection-view.ts'
import { credentialFor } from '../governance/connections/credential.ts'
import { GrantRefused, RightsMissing, TokenServerAway } from '../governance/connections/token-server.ts'
import { SecretsUnavailable } from '../governance/sealing/secrets-backend.ts'
import { connectionExpired, connectionLacksScope, toolNotAvailable } from '../contract/tool-services.ts'
import {
  elsewhereMessage,
  expiredMessage,
  lacksMessage,
  notConnectedMessage,
} from '../governance/tools/connections.ts'
import { ToolError, type ServiceConnection } from '../tools/kit/executor.ts'

/** `userId` is null if the organization itself calls. Then no person's own connection is used. */
interface Calling {
  readonly organizationId: string
  readonly requester: { readonly userId: string | null }
}

const onlyReads = (): never => {
  throw new Error('this connection sends no request with an effect')
}

/** Without `requireFresh`, the connection sends only requests without an effect. */
export async function connectionOfCall<Name extends Connectable>(
  context: Context,
  call: Calling,
  tool: ToolName,
  integration: Name,
  requireFresh?: () => void,
): Promise<ServiceConnection<Name>> {
  const found = await connectionIfAny(context, call, tool, integration, requireFresh)
  if (found !== null) return found
  throw new ToolError(toolNotAvailable, notConnectedMessage(tool, integration))
}

export async function connectionIfAny<Name extends Connectable>(
  context: Context,
  { organizationId, requester }: Calling,
  tool: ToolName,
  integration: Name,
  requireFresh: () => void = onlyReads,
): Promise<ServiceConnection<Name> | null> {
  const found = await credentialFor(context, {
    organizationId,
    requesterId: requester.userId,
    integration,
    tool,
  }).catch((error: unknown) => {
    throw errorOf(error, tool, integration)
  })
  const expired = (): ToolError => new ToolError(connectionExpired, expiredMessage(tool, integration))
  if (found === 'expired') throw expired()
  if (found === 'elsewhere') throw new ToolError(toolNotAvailable, elsewhereMessage(tool, integration))
  if (found === 'not_connected') return null
  const { connection, credential, headers, addresses, access } = found
  const reserve = (bytes: number, signal: AbortSignal) =>
    context.runCaches.answers.enter(organizationId, { amount: bytes, signal })
  return {
    credential,
    name: `${connection.id} ${addresses[0]}`,
    account: connection.account,
    base: addresses[0],
    headers,
    fetchWithin: (bounds) => context.outgoing.fetchWithin({ ...bounds, addresses, reserve }),
    requireFresh,
    async expired() {
      // The service may have ended this access token early, so the next try gets a new one. If the service
      // refuses even a new token, the connection has expired.
      if (access !== null && !access.isNew) {
        await access.drop()
        return new ToolError(
          'access_token_refused',
          `the service of \`${tool}\` refuses the access token: the next try asks for another one`,
          { retryable: true },
        )
      }
      await expireConnection(context, connection)
      return expired()
    },
  }
}

/** These errors come before any byte has left for the service. */
function errorOf(error: unknown, tool: ToolName, integration: Connectable): unknown {
  if (error instanceof SecretsUnavailable)
    return new ToolError('secrets_unavailable', error.message, { retryable: true, cause: error })
  if (error instanceof TokenServerAway)
    return new ToolError('access_token_unavailable', error.message, {
      retryable: true,
      retryAfterSeconds: error.retryAfterSeconds,
      cause: error,
    })
  if (error instanceof RightsMissing) {
    const message = lacksMessage(tool, integration, error.scopes)
    return new ToolError(connectionLacksScope, message, { cause: error })
  }
  if (!(error instanceof GrantRefused)) return error
  const message = `the authorization server of \`${integration}\` gives no access token (${error.code}): connect \`${tool}\` again, or let the operator check the client of this installation`
  return new ToolError('access_token_refused', message, { cause: error })
}
