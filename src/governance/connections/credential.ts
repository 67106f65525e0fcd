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
  /** If null, only the organization's connection is used. */
  readonly requesterId: string | null
  readonly integration: Name
  readonly tool: string
}

/** For one call. Each call must ask again, because the connection may have been revoked. */
export interface CallCredential<Name extends Connectable> {
  readonly connection: ConnectionView
  readonly credential: CredentialOf<Name>
  readonly headers: Readonly<Record<string, string>>
  /** The credential may be sent to these only. The first one is the base of the API. */
  readonly addresses: readonly [string, ...string[]]
  /** The access token in `headers`; null if they have the credential itself. */
  readonly access: Access | null
}

/** `elsewhere`: not the address that the connection was made for, or a host that the operator no longer names. */
export type NoCredential = 'not_connected' | 'expired' | 'elsewhere'

/**
 * From the requester's own connection, else from the organization's. Each call reads the row and checks the addresses
 * anew: it may be revoked, and the operator's settings may have changed. Rules, policies and roles have allowed the
 * call already; the credential only selects the account. Throws SecretsUnavailable, and the errors of `accessFor`.
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

/** It may be sent only to the host that people see, which the operator must name if it is not the service's own. */
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

/** null for an integration that sends the credential itself. */
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

/** The requester's own, else the organization's. Each has at most one that is not revoked (`connections_live`). */
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

/** Expires the connection and returns null if the secret is gone or cannot be used. */
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

/** At most once a minute. The call does not wait for it. */
function noteUse(db: Db, { id, last_used_at: last }: ConnectionRow): void {
  if (last !== null && Date.now() - last.getTime() < 60_000) return
  db.updateTable('connections')
    .set({ last_used_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .where(sql<boolean>`coalesce(last_used_at < clock_timestamp() - interval '1 minute', true)`)
    .execute()
    .catch(() => undefined)
}
