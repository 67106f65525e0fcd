import { sql } from 'kysely'
import { integrationNamed, type Connectable, type CredentialOf } from '../../tools/index.ts'
import { destinationOf, type IntegrationDeclaration } from '../../tools/kit/integration.ts'
import type { Db } from '../../db/schema/index.ts'
import { SecretGone } from '../sealing/secrets-backend.ts'
import {
  accessFor,
  isFresh,
  type Access,
  type LiveRow,
  type NoAccess,
  type Refreshing,
} from './access-token.ts'
import {
  connectionView,
  type ConnectionRow,
  type ConnectionView,
  expireConnection,
} from './connection-view.ts'
import { unnamedOf } from './credential-check.ts'
import { readKept, type KeptCredential } from './kept-credential.ts'

export interface CredentialAsk<Name extends Connectable> {
  readonly organizationId: string
  /** The person who started the run. If this is null, the call uses only the organization's connection. */
  readonly requesterId: string | null
  readonly integration: Name
  readonly tool: string
}

/**
 * The credential for one call. Do not keep it for the next call: each call must ask again, because the connection may
 * have been revoked.
 */
export interface CallCredential<Name extends Connectable> {
  readonly connection: ConnectionView
  readonly credential: CredentialOf<Name>
  /** Headers of requests to the service's API. */
  readonly headers: Readonly<Record<string, string>>
  /** The credential may be sent only to these addresses. The first address is the base of the API. */
  readonly addresses: readonly [string, ...string[]]
  /** The access token in `headers`. Is null if `headers` contain the credential itself. */
  readonly access: Access | null
}

/**
 * The reason why a call has no credential. `elsewhere`: its address is not the one that the connection was made for, or
 * the operator no longer names its host.
 */
export type NoCredential = 'not_connected' | 'expired' | 'elsewhere'

/**
 * Returns the credential for one call of a run. Uses the requester's own connection. If there is none, uses the
 * organization's connection. Each call reads the connection's row anew, so a revoked connection is not used again.
 * The settings of the operator may have changed since, so the addresses are checked anew too. Rules, policies and roles have already allowed the call. The credential only selects the account. Throws
 * SecretsUnavailable if the secrets backend does not answer, and the errors of `accessFor`.
 */
export async function credentialFor<Name extends Connectable>(
  context: Refreshing,
  ask: CredentialAsk<Name>,
): Promise<CallCredential<Name> | NoCredential> {
  const row = await liveRow(context.db, ask)
  if (row === undefined) return 'not_connected'
  if (row.status !== 'active') return 'expired'
  const declaration = integrationNamed(ask.integration) as IntegrationDeclaration<CredentialOf<Name>>
  const kept = await readCredentialOf(context, declaration, row)
  if (kept === null) return 'expired'
  const { credential } = kept
  const [base, ...others] = declaration.addresses(credential, context.config.connections)
  if (base === undefined) return 'not_connected'
  if (!isReachable(context.config, declaration, credential, row)) return 'elsewhere'
  const access = await accessOf(context, declaration, row, kept, ask.tool)
  if (access === 'expired') return 'expired'
  if (access === 'gone') return 'not_connected'
  noteUse(context.db, row)
  return {
    connection: connectionView(row),
    credential,
    headers: declaration.headers(credential, access?.token),
    addresses: [base, ...others],
    access,
  }
}

/**
 * Returns whether the credential may still be sent to its addresses. It may be sent only to the host that people see on
 * the connection. If this host is not the service's own, the operator must name it.
 */
export function isReachable(
  config: Refreshing['config'],
  declaration: IntegrationDeclaration,
  credential: unknown,
  { destination: shown, own_host: isOwn }: Pick<ConnectionRow, 'destination' | 'own_host'>,
): boolean {
  const present = destinationOf(declaration, credential, config.connections)
  if (present === null || present.host !== shown || (isOwn && !present.isOwn)) return false
  return unnamedOf(config, present) === null
}

/** Returns the access token for one call, or null for an integration that sends the credential itself. */
async function accessOf(
  context: Refreshing,
  declaration: IntegrationDeclaration,
  row: LiveRow,
  kept: KeptCredential<unknown>,
  tool: string,
): Promise<Access | NoAccess | null> {
  const { grant } = declaration
  return grant === undefined ? null : accessFor(context, declaration, grant, row, kept, tool)
}

/**
 * Returns the row of the requester's own connection. If there is none, returns the row of the organization's
 * connection. Revoked connections do not count. So the requester and the organization each have at most one row here
 * (unique index in migration 0035).
 */
export function liveRow(
  db: Db,
  {
    organizationId,
    requesterId,
    integration,
  }: Pick<CredentialAsk<Connectable>, 'organizationId' | 'requesterId'> & { readonly integration: string },
): Promise<LiveRow | undefined> {
  return db
    .selectFrom('connections')
    .selectAll()
    .select(isFresh)
    .where('organization_id', '=', organizationId)
    .where('integration', '=', integration)
    .where(sql<boolean>`coalesce(owner_id, '') in ('', ${requesterId ?? ''})`)
    .where('status', '<>', 'revoked')
    .orderBy(sql`owner_id is null`)
    .limit(1)
    .executeTakeFirst()
}

/**
 * Reads a connection's secret. Marks the connection as expired and returns null if the secret is gone, or if this
 * version of Countersign cannot use the secret.
 */
async function readCredentialOf<Credential>(
  context: Refreshing,
  declaration: IntegrationDeclaration<Credential>,
  row: ConnectionRow,
): Promise<KeptCredential<Credential> | null> {
  try {
    const owner = { organizationId: row.organization_id, connectionId: row.id }
    const kept = readKept(declaration, await context.secrets.read(owner, row))
    if (kept !== null) return kept
  } catch (error) {
    if (!(error instanceof SecretGone)) throw error
  }
  await expireConnection(context, row, row.generation)
  return null
}

/** Records the connection's use at most once a minute. The call does not wait for this record. */
function noteUse(db: Db, { id, last_used_at: last }: ConnectionRow): void {
  if (last !== null && Date.now() - last.getTime() < 60_000) return
  db.updateTable('connections')
    .set({ last_used_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .where(sql<boolean>`coalesce(last_used_at < clock_timestamp() - interval '1 minute', true)`)
    .execute()
    .catch(() => undefined)
}
