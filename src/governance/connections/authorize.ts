import { createHash, randomBytes } from 'node:crypto'
import { sql, type Selectable } from 'kysely'
import {
  type Authorization,
  type GrantDeclaration,
  type IntegrationDeclaration,
  destinationOf,
} from '../../tools/kit/integration.ts'
import { publicBase } from '../../shared/config.ts'
import { requireProvenCaller } from '../access/address-proof.ts'
import { requireThawed, requireThawedNow } from '../access/frozen.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { requireRole } from '../access/recheck.ts'
import { DomainError, errorAt } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { growAs } from '../limits/storage.ts'
import { verifierBinding } from '../sealing/bindings.ts'
import type { Sealer } from '../sealing/sealer.ts'
import { integrationOf, type NewConnection } from './connections.ts'
import { type Checking, asDomainErrors, checkCredential } from './credential-check.ts'
import { type Saving, saveConnection } from './save-connection.ts'
import { authorizationUrl, findServer, exchangeCode, AuthorizationDenied } from './token-server.ts'
import type { ConnectionAttemptsTable } from '../../db/schema/connections.ts'
import { freshSecondsOf, type FirstAccess } from './access-token.ts'
import type { ShownConnection } from './connection-view.ts'

export type Authorizing = Saving & Checking & { readonly sealer: Pick<Sealer, 'seal' | 'open'> }

/** The person continues at `authorization_url` in the browser. */
export interface BegunView {
  readonly authorization_url: string
  readonly expires_at: string
}
/** Waiting authorizations of a person in one organization. A new one then replaces the oldest. */
const mostAttempts = 10

/** A `state` is a random text that the server sends back. The database stores only its hash. */
export const hashOfState = (state: string): string => createHash('sha256').update(state).digest('hex')

/** Throws `validation_error` if there is no authorization in the browser, or none that is configured. */
function authorizationOf(
  { grant, title }: IntegrationDeclaration,
  { config }: Pick<Checking, 'config'>,
): { readonly granting: GrantDeclaration<unknown>; readonly authorization: Authorization } {
  const authorization = grant?.authorization(config.connections) ?? null
  if (grant !== undefined && authorization !== null) return { granting: grant, authorization }
  const message =
    grant === undefined
      ? `is missing: give the credential for ${title}`
      : `is missing: give one, or let the operator set ${grant.missingAuthorization}, so that you can authorize ${title} in the browser`
  throw new DomainError('validation_error', `\`credential\` ${message}`, [{ path: 'credential', message }])
}

/**
 * Begins an authorization in the browser (OAuth 2.1: code with PKCE). Throws `not_found` and `bad_request` for the
 * tool, `validation_error` if the server refuses, `unavailable` if it does not answer, `insufficient_role` if a member
 * connects for the organization, `conflict` while the address is not confirmed or the organization is frozen, and the
 * errors of `authorizationOf` and `growAs`.
 */
export async function beginAuthorization(
  context: Authorizing,
  caller: Caller,
  { tool, scope, name }: Omit<NewConnection, 'credential'>,
  once: Once | null = null,
): Promise<BegunView> {
  const declaration = integrationOf(tool)
  if (scope === 'organization') requireRole(caller.role, 'admin')
  const { authorization } = authorizationOf(declaration, context)
  await requireThawedNow(context.db, caller)
  const [state, verifier] = [randomText(), randomText()]
  const redirectUri = redirectUriOf(context, declaration)
  const url = await asDomainErrors(declaration.title, async () => {
    const server = await findServer(context.outgoing, authorization.server)
    return authorizationUrl(server, authorization, { state, verifier, redirectUri })
  })
  const stateHash = hashOfState(state)
  const sealed = await context.sealer.seal(verifierBinding(stateHash), verifier)
  return growAs(context, caller, 'org.change', {
    action: 'create',
    async work(tx, now) {
      const present = await now()
      if (scope === 'organization') requireRole(present.role, 'admin')
      await requireProvenCaller(tx, present)
      requireThawed(tx)
      await tx.send(sql`delete from connection_attempts where state_hash in (
        select state_hash from connection_attempts
        where organization_id = ${tx.organizationId} and user_id = ${caller.userId}
        order by created_at desc offset ${mostAttempts - 1})`)
      const { expires_at: expiresAt } = await tx.trx
        .insertInto('connection_attempts')
        .values({
          state_hash: stateHash,
          organization_id: tx.organizationId,
          user_id: caller.userId,
          integration: declaration.name,
          tool,
          scope,
          name: name ?? null,
          redirect_uri: redirectUri,
          verifier_sealed: sealed,
          expires_at: sql<Date>`clock_timestamp() + make_interval(secs => 600)`,
        })
        .returning('expires_at')
        .executeTakeFirstOrThrow()
      tx.append({
        eventType: 'connection.authorization_begun',
        action: 'begin',
        actor: actorOf(caller),
        metadata: { tool, scope, integration: declaration.name },
      })
      return keepMade(once, tx, { authorization_url: url, expires_at: expiresAt.toISOString() })
    },
  })
}

/** 256 random bits, in characters that PKCE allows. */
const randomText = (): string => randomBytes(32).toString('base64url')

/** Each integration has its own address, so the answer of one server is never taken for that of another. */
const redirectUriOf = ({ config }: Authorizing, { name }: IntegrationDeclaration): string =>
  `${publicBase(config)}/api/v1/connections/callback/${name}`

type Attempt = Selectable<ConnectionAttemptsTable>

/** `code` is the error code of the authorization server. */
export type Finished =
  | { readonly kind: 'connected'; readonly title: string; readonly connection: ShownConnection }
  | { readonly kind: 'refused'; readonly title: string; readonly code: string }

/**
 * Takes the answer that a browser brings, and connects the integration. Only the person who began may bring it, and
 * each `state` is accepted once, because its row is deleted first. Throws `not_found` if the authorization has ended or
 * belongs to another person, `conflict` while the organization is frozen, `validation_error`, `unavailable`, and the
 * errors of `checkCredential` and `saveConnection`.
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
  const verifier = await context.sealer.open(verifierBinding(attempt.state_hash), attempt.verifier_sealed)
  const given = { answer, state, verifier, redirectUri: attempt.redirect_uri }
  const tokens = await asDomainErrors(title, () =>
    exchangeCode(context.outgoing, authorization, given),
  ).catch((error: unknown) => {
    if (error instanceof AuthorizationDenied) return error
    throw error
  })
  if (tokens instanceof AuthorizationDenied) return { kind: 'refused', title, code: tokens.code }
  if (tokens.refreshToken === null) {
    throw errorAt(
      'validation_error',
      'code',
      `${title} gave no refresh token: remove this service from your ${title} account, and authorize again`,
    )
  }
  const { accessToken, refreshToken, scopes } = tokens
  const credential = granting.authorized(refreshToken, context.config.connections)
  const first = { credential, accessToken, freshSeconds: freshSecondsOf(tokens), scopes }
  const connection = await connectWith(context, inOrganization, attempt, declaration, first, signal)
  return { kind: 'connected', title, connection }
}

/** Deletes the row, so a second answer with this `state` finds none. null if it is gone, expired or another's. */
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

/** The same for every reason, so that nobody learns about another person's authorizations. */
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
): Promise<ShownConnection> {
  const { connections } = context.config
  const addresses = declaration.addresses(first.credential, connections)
  const destination = destinationOf(declaration, first.credential, connections)
  if (destination === null) throw new Error('an authorization has given a credential without an address')
  const { account } = await checkCredential(context, declaration, first, addresses, signal)
  return saveConnection(context, caller, { declaration, destination, ...first, account, tool, scope, name })
}
