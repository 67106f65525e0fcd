import type { IntegrationDeclaration } from '../../tools/kit/integration.ts'
import { DomainError } from '../errors.ts'
import { freshSecondsOf, withClient, type FirstAccess } from './access-token.ts'
import { invalid, type Checking } from './credential-check.ts'
import { refreshTokens, serviceAccountToken } from './token-server.ts'
import { GrantRefused, TokenServerAway } from './token-server-errors.ts'

/**
 * Exchanges a new credential for its first access token, if the integration works with access tokens. Throws
 * `validation_error` if the authorization server refuses, and `unavailable` if the server gives no usable answer.
 */
export async function firstAccess(
  { config, outgoing }: Checking,
  { grant: granting, title }: IntegrationDeclaration,
  credential: unknown,
  tool: string,
): Promise<FirstAccess> {
  if (granting === undefined) return { credential, accessToken: null, freshSeconds: 0, scopes: null }
  const grant = granting.of(credential, config.connections)
  return asDomainErrors(title, async () => {
    if (grant.kind === 'service_account') {
      await serviceAccountToken(outgoing, grant, granting.scopesOf(tool))
      return { credential, accessToken: null, freshSeconds: 0, scopes: null }
    }
    const tokens = await refreshTokens(outgoing, withClient(grant))
    const { accessToken, refreshToken } = tokens
    return {
      credential: refreshToken === null ? credential : granting.renewed(credential, refreshToken),
      accessToken,
      freshSeconds: freshSecondsOf(tokens),
      scopes: tokens.scopes,
    }
  })
}

const advice: Readonly<Record<string, string>> = {
  invalid_grant: 'the token or key has ended, was revoked or belongs to another client: make a new one',
  invalid_client: 'check `client_id` and `client_secret`',
  invalid_key: 'the private key cannot be read: give the whole key file again',
}

/**
 * Runs `work`, which sends requests to an authorization server. Turns errors of these requests into errors of the API.
 * `title` names the service.
 */
export async function asDomainErrors<T>(title: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof GrantRefused) {
      const hint = advice[error.code]
      throw invalid(
        'credential',
        `was refused by ${title} (${error.code})${hint === undefined ? '' : `: ${hint}`}`,
      )
    }
    if (error instanceof TokenServerAway)
      throw new DomainError(
        'unavailable',
        `${title} could not be asked for a token: ${error.message}`,
        [],
        error.retryAfterSeconds ?? undefined,
      )
    throw error
  }
}
