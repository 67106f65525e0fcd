import type { Selectable } from 'kysely'
import { sql } from 'kysely'
import { destinationOf, type IntegrationDeclaration } from '../../tools/kit/integration.ts'
import type { ConnectionAttemptsTable } from '../../db/schema/connections.ts'
import { requireThawedNow } from '../access/frozen.ts'
import type { Caller } from '../access/identity.ts'
import { DomainError } from '../errors.ts'
import { verifierPlace } from '../sealing/places.ts'
import { freshSecondsOf, type FirstAccess } from './access-token.ts'
import { authorizationOf, hashOfState, type Authorizing } from './authorize.ts'
import type { ConnectionView } from './connection-view.ts'
import { integrationOf } from './connections.ts'
import { checkCredential } from './credential-check.ts'
import { asDomainErrors } from './first-access.ts'
import { saveConnection } from './save-connection.ts'
import { exchangeCode } from './token-server.ts'
import { AuthorizationDenied } from './token-server-errors.ts'

type Attempt = Selectable<ConnectionAttemptsTable>

/** The result of an authorization. If it was refused, `code` is the error code of the authorization server. */
export type Finished =
  | { readonly kind: 'connected'; readonly title: string; readonly connection: ConnectionView }
  | { readonly kind: 'refused'; readonly title: string; readonly code: string }

/**
 * Takes the answer that a browser brings from an authorization server, and connects the integration. The sender must be
 * the person who began the authorization. Each `state` is accepted only once, because its row is deleted first. Throws
 * `not_found` if the authorization has ended or belongs to another person, and `conflict` while the organization is
 * frozen. Throws `validation_error`, `unavailable`,
 * and the errors of `checkCredential` and `saveConnection`.
 */
export async function finishAuthorization(
  context: Authorizing,
  caller: Caller,
  integration: string,
  answer: URLSearchParams,
  signal: AbortSignal,
): Promise<Finished> {
  const state = answer.get('state') ?? ''
  const attempt = await takeAttempt(context, caller, integration, state)
  if (attempt === null) throw unknownState()
  const inOrganization = { ...caller, organizationId: attempt.organization_id }
  await requireThawedNow(context.db, inOrganization)
  const declaration = integrationOf(attempt.tool)
  const { title } = declaration
  const { granting, authorization } = authorizationOf(declaration, context)
  const verifier = await context.sealer.open(verifierPlace(attempt.state_hash), attempt.verifier_sealed)
  const given = { answer, state, verifier, redirectUri: attempt.redirect_uri }
  const tokens = await asDomainErrors(title, () =>
    exchangeCode(context.outgoing, authorization, given),
  ).catch((error: unknown) => {
    if (error instanceof AuthorizationDenied) return error
    throw error
  })
  if (tokens instanceof AuthorizationDenied) return { kind: 'refused', title, code: tokens.code }
  if (tokens.refreshToken === null) {
    const message = `${title} gave no refresh token: remove this service from your ${title} account, and authorize again`
    throw new DomainError('validation_error', message, [{ path: 'code', message }])
  }
  const { accessToken, refreshToken, scopes } = tokens
  const credential = granting.authorized(refreshToken, context.config.connections)
  const first = { credential, accessToken, freshSeconds: freshSecondsOf(tokens), scopes }
  const connection = await connectWith(context, inOrganization, attempt, declaration, first, signal)
  return { kind: 'connected', title, connection }
}

/**
 * Deletes the row of a waiting authorization of the caller, and returns the row. So a second answer with the same
 * `state` finds no row. Another person's answer leaves the row as it is. Returns null if there is no row, or if the
 * authorization has expired.
 */
async function takeAttempt(
  { db }: Authorizing,
  { userId }: Caller,
  integration: string,
  state: string,
): Promise<Attempt | null> {
  const row = await db
    .deleteFrom('connection_attempts')
    .where('state_hash', '=', hashOfState(state))
    .where('user_id', '=', userId)
    .where('integration', '=', integration)
    .returningAll()
    .returning(sql<boolean>`expires_at > clock_timestamp()`.as('is_live'))
    .executeTakeFirst()
  return row?.is_live === true ? row : null
}

/** The error is the same for every reason, so that nobody learns about another person's authorizations. */
const unknownState = (): DomainError =>
  new DomainError(
    'not_found',
    'this authorization has ended, was used, or was begun by another person: begin again with `POST /tools/{name}/connect`',
  )

async function connectWith(
  context: Authorizing,
  caller: Caller,
  { tool, scope, name }: Attempt,
  declaration: IntegrationDeclaration,
  first: FirstAccess,
  signal: AbortSignal,
): Promise<ConnectionView> {
  const { connections } = context.config
  const addresses = declaration.addresses(first.credential, connections)
  const destination = destinationOf(declaration, first.credential, connections)
  if (destination === null) throw new Error('an authorization has given a credential without an address')
  const { account } = await checkCredential(context, declaration, first, addresses, signal)
  return saveConnection(context, caller, { declaration, destination, ...first, account, tool, scope, name })
}
