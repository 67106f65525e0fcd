import { sql } from 'kysely'
import { integrationNamed } from '../../catalog/integrations/index.ts'
import type { IntegrationDeclaration } from '../../catalog/integrations/integration.ts'
import { getTool } from '../../catalog/index.ts'
import { newId } from '../../contract/ids.ts'
import type { Db } from '../../db/schema/index.ts'
import { inOneLine } from '../../policy/text.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { requireRole, runAs, type Acting } from '../access/recheck.ts'
import { hasRole } from '../access/scopes.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Actor } from '../audit/entry.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { growAs } from '../limits/storage.ts'
import { readPage, viewPage, type Page, type PageRequest } from '../page.ts'
import {
  SecretsUnavailable,
  type KeptSecret,
  type SecretOwner,
  type Secrets,
} from '../sealing/secrets-backend.ts'
import {
  connectionView,
  scopeOf,
  type ConnectionRow,
  type ConnectionScope,
  type ConnectionView,
} from './connection-view.ts'
import { checkCredential, readCredential, type Checking } from './credential-check.ts'
import { abandonSecrets, adoptSecret, keepSecret } from './secret-removals.ts'

/** Live connections of one organization, those of its members included. */
const mostConnections = 2_000

export interface NewConnection {
  /** A tool of the integration. */
  readonly tool: string
  readonly credential: unknown
  readonly scope: ConnectionScope
  readonly name: string | undefined
}

type Connecting = Acting & Checking & { readonly db: Db; readonly secrets: Secrets }

/**
 * Connects the integration of a tool with a credential, after the service has accepted it. It replaces the live
 * connection of the same owner. Throws `not_found` for an unknown tool, `bad_request` for one without an integration,
 * `insufficient_role`, and what `readCredential`, `checkCredential` and `growAs` throw.
 */
export async function connect(
  context: Connecting,
  caller: Caller,
  input: NewConnection,
  signal: AbortSignal,
  once: Once | null = null,
): Promise<ConnectionView> {
  const declaration = integrationOf(input.tool)
  if (input.scope === 'organization') requireRole(caller.role, 'admin')
  const { credential, addresses } = readCredential(context, declaration, input.credential)
  const { account } = await checkCredential(context, declaration, credential, addresses, signal)
  const id = newId('connection')
  const { organizationId } = caller
  const kept = await keep(context, { organizationId, connectionId: id }, JSON.stringify(credential))
  const name =
    input.name ?? (account === null ? declaration.title : inOneLine(`${declaration.title} (${account})`))
  return growAs(context, caller, 'org.change', {
    action: 'create',
    async work(tx, now) {
      if (input.scope === 'organization') requireRole((await now()).role, 'admin')
      const ownerId = input.scope === 'personal' ? caller.userId : null
      const replaced = await replaceLive(tx, declaration.name, ownerId)
      await requireRoom(tx)
      const row = await tx.trx
        .insertInto('connections')
        .values({
          id,
          organization_id: organizationId,
          integration: declaration.name,
          owner_id: ownerId,
          name,
          account,
          ...kept,
          created_at: tx.now,
          created_by: caller.userId,
        })
        .returningAll()
        .executeTakeFirstOrThrow()
      await adoptSecret(tx, id, kept)
      tx.policyChanged()
      appendEvent(tx, actorOf(caller), 'created', row, { tool: input.tool, replaced_id: replaced })
      const view = connectionView(row)
      await once?.markActed(tx.trx, view)
      return view
    },
  })
}

/** Throws `unavailable` while the backend of secrets is away. */
async function keep(context: Connecting, owner: SecretOwner, text: string): Promise<KeptSecret> {
  try {
    return await keepSecret(context, owner, text)
  } catch (error) {
    if (error instanceof SecretsUnavailable) throw new DomainError('unavailable', error.message)
    throw error
  }
}

/** Throws `not_found` for an unknown tool, `bad_request` for a tool that needs no connection of the organization. */
function integrationOf(name: string): IntegrationDeclaration {
  const tool = getTool(name)
  if (tool === undefined) throw notFound('tool', name)
  const { connection } = tool
  if (connection === 'none') throw new DomainError('bad_request', `\`${name}\` needs no connection`)
  if (connection === 'installation')
    throw new DomainError(
      'bad_request',
      `\`${name}\` is connected by the operator, with \`npm run connect-installation\``,
    )
  const declaration = integrationNamed(connection)
  if (declaration === undefined)
    throw new DomainError('bad_request', `\`${name}\` cannot be connected in this version`)
  return declaration
}

/** Revokes the owner's live connection to an integration; returns its id, or null without one. */
async function replaceLive(tx: ChainTx, integration: string, ownerId: string | null): Promise<string | null> {
  const row = await tx.trx
    .updateTable('connections')
    .set({ status: 'revoked', revoked_at: tx.now, credential_sealed: null })
    .where('organization_id', '=', tx.organizationId)
    .where('integration', '=', integration)
    .where(sql<boolean>`coalesce(owner_id, '') = ${ownerId ?? ''}`)
    .where('status', '<>', 'revoked')
    .returning(['id', 'backend'])
    .executeTakeFirst()
  if (row === undefined) return null
  await abandonSecrets(tx, [row])
  return row.id
}

async function requireRoom(tx: ChainTx): Promise<void> {
  const { live } = await tx.trx
    .selectFrom('connections')
    .select(({ fn }) => fn.countAll<number>().as('live'))
    .where('organization_id', '=', tx.organizationId)
    .where('status', '<>', 'revoked')
    .executeTakeFirstOrThrow()
  if (live < mostConnections) return
  const message = `an organization has at most ${mostConnections} connections: revoke some that are not used`
  throw new DomainError('validation_error', message, [{ path: 'credential', message }])
}

/** Newest first: the organization's and the caller's own; an admin sees those of all members. */
export async function listConnections(
  db: Db,
  caller: Caller,
  page: PageRequest,
): Promise<Page<ConnectionView>> {
  const query = db
    .selectFrom('connections')
    .selectAll()
    .where('organization_id', '=', caller.organizationId)
    .$if(!hasRole(caller.role, 'admin'), (seen) =>
      seen.where((where) => where.or([where('owner_id', 'is', null), where('owner_id', '=', caller.userId)])),
    )
  return viewPage(await readPage(db, query, 'id', page, (row) => row.id), connectionView)
}

/**
 * Renames a connection of the caller, or as an admin one of the organization. Throws `not_found` for a connection that
 * the caller does not see, `insufficient_role`, and `conflict` for a revoked one.
 */
export async function renameConnection(
  context: Acting,
  caller: Caller,
  id: string,
  name: string,
): Promise<ConnectionView> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    const row = await seenRow(tx, present, id)
    if (row.owner_id !== caller.userId) requireRole(present.role, 'admin')
    if (row.status === 'revoked')
      throw new DomainError('conflict', 'the connection was revoked: connect anew')
    const next = { ...row, name }
    await tx.trx.updateTable('connections').set({ name }).where('id', '=', id).execute()
    appendEvent(tx, actorOf(caller), 'renamed', next, { name })
    return connectionView(next)
  })
}

/**
 * Revokes a connection and deletes its credential: no call uses it from the commit on. A person revokes their own, an
 * admin any. Revoking a revoked one changes nothing. Throws `not_found`, `insufficient_role`.
 */
export async function revokeConnection(context: Acting, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    const row = await seenRow(tx, present, id)
    if (row.owner_id !== caller.userId) requireRole(present.role, 'admin')
    if (row.status !== 'revoked') await revoke(tx, actorOf(caller), [row])
  })
}

/** Revokes what a person has connected in the organization, when they leave it. */
export async function revokeAllOf(tx: ChainTx, userId: string, actor: Actor): Promise<void> {
  const rows = await tx.trx
    .selectFrom('connections')
    .selectAll()
    .where('organization_id', '=', tx.organizationId)
    .where('owner_id', '=', userId)
    .where('status', '<>', 'revoked')
    .execute()
  await revoke(tx, actor, rows)
}

async function revoke(tx: ChainTx, actor: Actor, rows: readonly ConnectionRow[]): Promise<void> {
  if (rows.length === 0) return
  const ids = rows.map(({ id }) => id)
  await tx.trx
    .updateTable('connections')
    .set({ status: 'revoked', revoked_at: tx.now, credential_sealed: null })
    .where('id', 'in', ids)
    .execute()
  await abandonSecrets(tx, rows)
  tx.policyChanged()
  for (const row of rows) appendEvent(tx, actor, 'revoked', row)
}

/**
 * Marks a connection whose credential the service no longer accepts: its calls fail with `connection_expired` until
 * somebody connects again. Changes nothing if it was replaced or revoked meanwhile.
 */
export async function expireConnection(
  context: Pick<Acting, 'combiner'>,
  { id, organization_id }: Pick<ConnectionRow, 'id' | 'organization_id'>,
): Promise<void> {
  await context.combiner.run(organization_id, 'org.change', async (tx) => {
    const row = await tx.trx
      .updateTable('connections')
      .set({ status: 'expired' })
      .where('id', '=', id)
      .where('status', '=', 'active')
      .returningAll()
      .executeTakeFirst()
    if (row === undefined) return
    tx.policyChanged()
    appendEvent(tx, { type: 'system', id: 'worker' }, 'expired', row)
  })
}

/** The row, if the caller may see it. Throws `not_found`. */
async function seenRow(tx: ChainTx, caller: Caller, id: string): Promise<ConnectionRow> {
  const row = await tx.trx
    .selectFrom('connections')
    .selectAll()
    .where('id', '=', id)
    .where('organization_id', '=', tx.organizationId)
    .executeTakeFirst()
  const isSeen =
    row !== undefined &&
    (row.owner_id === null || row.owner_id === caller.userId || hasRole(caller.role, 'admin'))
  if (!isSeen) throw notFound('connection', id)
  return row
}

function appendEvent(
  tx: ChainTx,
  actor: Actor,
  verb: 'created' | 'renamed' | 'revoked' | 'expired',
  row: ConnectionRow,
  more: { readonly tool?: string; readonly replaced_id?: string | null; readonly name?: string } = {},
): void {
  tx.append({
    eventType: `connection.${verb}`,
    action: verb,
    status: 'success',
    actor,
    metadata: {
      connection_id: row.id,
      integration: row.integration,
      scope: scopeOf(row),
      owner_id: row.owner_id,
      account: row.account,
      ...more,
    },
  })
}
