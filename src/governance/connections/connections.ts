import { sql } from 'kysely'
import { z } from 'zod'
import { catalog, getTool, integrationNamed, integrations } from '../../tools/index.ts'
import type { IntegrationDeclaration } from '../../tools/kit/integration.ts'
import type { ToolDeclaration } from '../../tools/kit/tool.ts'
import type { Db } from '../../db/schema/index.ts'
import { requireThawedNow } from '../access/frozen.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { requireRole, runAs, type Acting } from '../access/recheck.ts'
import { hasRole } from '../access/scopes.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Actor } from '../audit/entry.ts'
import { DomainError, notFound } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { owned } from '../page.ts'
import {
  appendConnectionEvent,
  ownedConnection,
  shownConnection,
  type ConnectionRow,
  type ConnectionScope,
  type ShownConnection,
} from './connection-view.ts'
import { checkCredential, readCredential, type Checking, firstAccess } from './credential-check.ts'
import { saveConnection, type Saving } from './save-connection.ts'
import { abandonSecrets } from './secret-removals.ts'
import type { Config } from '../../shared/config.ts'
import type { Outgoing } from '../../shared/outgoing/outgoing.ts'
import type { SparseLog } from '../../shared/log.ts'
import type { Secrets } from '../sealing/secrets-backend.ts'
import { withClient } from './access-token.ts'
import { isReachable } from './credential.ts'
import { readKept } from './kept-credential.ts'
import { revokeToken } from './token-server.ts'

export interface NewConnection {
  readonly tool: string
  readonly credential: unknown
  readonly scope: ConnectionScope
  readonly name: string | undefined
}

/**
 * Connects the service that a tool calls, once it has accepted the credential. Replaces the owner's present connection
 * to it. Throws `not_found` and `bad_request` for the tool, `insufficient_role` if a member connects for the
 * organization, `conflict` while it is frozen, and the errors of `readCredential`, `firstAccess`, `checkCredential` and
 * `saveConnection`.
 */
export async function connect(
  context: Saving & Checking,
  caller: Caller,
  input: NewConnection,
  signal: AbortSignal,
  once: Once | null = null,
): Promise<ShownConnection> {
  const declaration = integrationOf(input.tool)
  if (input.scope === 'organization') requireRole(caller.role, 'admin')
  const { role } = caller
  const { credential, addresses, destination } = readCredential(context, declaration, input.credential, role)
  await requireThawedNow(context.db, caller)
  const first = await firstAccess(context, declaration, credential, input.tool)
  const { account } = await checkCredential(context, declaration, first, addresses, signal)
  const { tool, scope, name = null } = input
  return saveConnection(
    context,
    caller,
    { declaration, destination, ...first, account, tool, scope, name },
    once,
  )
}

/** Throws `not_found`, and `bad_request` for a tool that an organization cannot connect. */
export function integrationOf(name: string): IntegrationDeclaration {
  const tool = getTool(name)
  if (tool === undefined) throw notFound('tool', name)
  const connection = connectedFor(tool)
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

/** What people connect for it: the name of an integration, else `none` or `installation`. */
const connectedFor = ({ ownService, connection }: ToolDeclaration): string =>
  ownService?.integration ?? connection

/** `npm start` runs them in development (src/stack/stand-ins). */
const withStandIn: ReadonlySet<string> = new Set(['github', 'slack'])

/** What people can connect, by name. `browser`: an authorization in the browser does it, without a credential. */
export function services({ connections }: Pick<Config, 'connections'>) {
  const tools: readonly ToolDeclaration[] = Object.values(catalog)
  return Object.values<IntegrationDeclaration>(integrations)
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, title, credential, grant }) => ({
      name,
      title,
      tools: tools.filter((tool) => connectedFor(tool) === name).map((tool) => tool.name),
      credential: z.toJSONSchema(credential, { io: 'input', unrepresentable: 'any' }),
      browser: grant !== undefined && grant.authorization(connections) !== null,
      stand_in:
        connections.standIns === null || !withStandIn.has(name) ? null : `${connections.standIns}/${name}`,
    }))
}

export const connectionRows = owned({
  table: 'connections',
  kind: 'connection',
  word: 'connection',
  // An admin also sees the connections of all members.
  seen: sql`o.owner_id is null or o.owner_id = m.user_id or m.role in ('admin', 'owner')`,
  ownerEmail: sql`(select u.email from users as u where u.id = o.owner_id)`,
  view: ownedConnection,
})

/** Members rename their own, admins any. Throws `not_found`, `insufficient_role`, and `conflict` if revoked. */
export async function renameConnection(
  context: Acting,
  caller: Caller,
  id: string,
  { name }: { readonly name: string },
): Promise<ShownConnection> {
  return runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    const row = await seenRow(tx, present, id)
    if (row.owner_id !== caller.userId) requireRole(present.role, 'admin')
    if (row.status === 'revoked')
      throw new DomainError('conflict', 'the connection was revoked: connect anew')
    const next = { ...row, name }
    await tx.trx.updateTable('connections').set({ name }).where('id', '=', id).execute()
    appendConnectionEvent(tx, actorOf(caller), 'renamed', next, { name })
    return shownConnection(tx, next)
  })
}

/** Members revoke their own, admins any. Afterwards the service is told. Throws `not_found` and `insufficient_role`. */
export async function revokeConnection(context: Telling & Acting, caller: Caller, id: string): Promise<void> {
  const ended = await runAs(context, caller, 'org.change', async (tx, now) => {
    const present = await now()
    const row = await seenRow(tx, present, id)
    if (row.owner_id !== caller.userId) requireRole(present.role, 'admin')
    if (row.status === 'revoked') return null
    await revoke(tx, actorOf(caller), [row])
    return row
  })
  if (ended !== null) await tellService(context, ended)
}

/** `all` of a person who leaves; those to `foreign` hosts, not the service's own, of one who is no admin any more. */
export async function revokeConnectionsOf(
  tx: ChainTx,
  userId: string,
  which: 'all' | 'foreign',
  actor: Actor,
): Promise<void> {
  const rows = await tx.trx
    .selectFrom('connections')
    .selectAll()
    .where('organization_id', '=', tx.organizationId)
    .where('owner_id', '=', userId)
    .where('status', '<>', 'revoked')
    .$if(which === 'foreign', (some) => some.where('own_host', '=', false))
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
  for (const row of rows) appendConnectionEvent(tx, actor, 'revoked', row)
}

/** Throws `not_found` if the caller may not see it. */
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

export interface Telling {
  readonly db: Db
  readonly config: Pick<Config, 'connections'>
  readonly outgoing: Outgoing
  readonly secrets: Secrets
  readonly sparseLog: SparseLog
}

/**
 * Asks the service once to revoke the token, if it came from an authorization for this connection. `row` is from before
 * the revocation. Never throws: the database has it revoked already.
 *
 * Google then also revokes all other tokens that the account has given to this installation. So nothing is sent while
 * another live connection has the same account.
 */
async function tellService(context: Telling, row: ConnectionRow): Promise<void> {
  try {
    const declaration = integrationNamed(row.integration)
    if (declaration?.grant === undefined) return
    const owner = { organizationId: row.organization_id, connectionId: row.id }
    const kept = readKept(declaration, await context.secrets.read(owner, row))
    if (kept === null || !isReachable(context.config, declaration, kept.credential, row)) return
    const grant = declaration.grant.of(kept.credential, context.config.connections)
    if (grant.kind !== 'refresh_token' || !grant.isOurs || (await isShared(context.db, row))) return
    await revokeToken(context.outgoing, withClient(grant))
  } catch (error) {
    context.sparseLog.warn(
      'tell service',
      { err: error, organization_id: row.organization_id, connection_id: row.id },
      'a service was not told that a connection is revoked',
    )
  }
}

async function isShared(db: Db, { id, integration, account }: ConnectionRow): Promise<boolean> {
  const other = await db
    .selectFrom('connections')
    .select('id')
    .where('integration', '=', integration)
    .where('account', 'is not distinct from', account)
    .where('status', '<>', 'revoked')
    .where('id', '<>', id)
    .limit(1)
    .executeTakeFirst()
  return other !== undefined
}
