import { sql } from 'kysely'
import type { Destination, IntegrationDeclaration } from '../../tools/kit/integration.ts'
import { newId } from '../../contract/ids.ts'
import type { Db } from '../../db/schema/index.ts'
import { inOneLine } from '../../policy/text.ts'
import { requireProvenCaller } from '../access/address-proof.ts'
import { requireThawed } from '../access/frozen.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { requireRole, type Acting } from '../access/recheck.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import { DomainError, errorAt } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { growAs } from '../limits/storage.ts'
import {
  SecretsUnavailable,
  type KeptSecret,
  type SecretOwner,
  type Secrets,
} from '../sealing/secrets-backend.ts'
import type { FirstAccess } from './access-token.ts'
import {
  appendConnectionEvent,
  shownConnection,
  type ConnectionScope,
  type ShownConnection,
} from './connection-view.ts'
import { keptText, lackingTools } from './kept-credential.ts'
import { abandonSecrets, adoptSecret, keepSecret } from './secret-removals.ts'

export const mostConnections = 2_000

export interface CheckedConnection extends FirstAccess {
  readonly declaration: IntegrationDeclaration
  readonly account: string | null
  readonly destination: Destination
  readonly tool: string
  readonly scope: ConnectionScope
  readonly name: string | null
}

export type Saving = Acting & { readonly db: Db; readonly secrets: Secrets }

/**
 * Saves a connection whose credential the service has accepted, in place of the owner's present one.
 *
 * Throws `insufficient_role` if a member connects for the organization or at an address that is not the service's own,
 * `validation_error` above `mostConnections`, `unavailable` if the secrets backend does not answer, and the errors of
 * `growAs`. Throws `conflict` while the organization is frozen, and while the address is not confirmed: the caller may
 * be a stranger, and the person who really has the address must not use the stranger's connection later.
 */
export async function saveConnection(
  context: Saving,
  caller: Caller,
  checked: CheckedConnection,
  once: Once | null = null,
): Promise<ShownConnection> {
  const { declaration, credential, accessToken, freshSeconds, scopes, account, destination, scope } = checked
  const id = newId('connection')
  const { organizationId } = caller
  const text = keptText(declaration, { credential, accessToken, scopes })
  const kept = await keep(context, { organizationId, connectionId: id }, text)
  const name =
    checked.name ?? (account === null ? declaration.title : inOneLine(`${declaration.title} (${account})`))
  return growAs(context, caller, 'org.change', {
    action: 'create',
    async work(tx, now) {
      const present = await now()
      if (scope === 'organization' || !destination.isOwn) requireRole(present.role, 'admin')
      await requireProvenCaller(tx, present)
      requireThawed(tx)
      const ownerId = scope === 'personal' ? caller.userId : null
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
          destination: destination.host,
          own_host: destination.isOwn,
          ...kept,
          lacking: lackingTools(declaration, scopes),
          access_fresh_until:
            accessToken === null
              ? null
              : sql<Date>`clock_timestamp() + make_interval(secs => ${freshSeconds})`,
          created_at: tx.now,
          created_by: caller.userId,
        })
        .returningAll()
        .executeTakeFirstOrThrow()
      await adoptSecret(tx, id, kept)
      tx.policyChanged()
      const more = { tool: checked.tool, replaced_id: replaced }
      appendConnectionEvent(tx, actorOf(caller), 'created', row, more)
      return keepMade(once, tx, await shownConnection(tx, row))
    },
  })
}

/** Throws `unavailable` if the secrets backend does not answer. */
async function keep(context: Saving, owner: SecretOwner, text: string): Promise<KeptSecret> {
  try {
    return await keepSecret(context, owner, text)
  } catch (error) {
    if (error instanceof SecretsUnavailable) throw new DomainError('unavailable', error.message)
    throw error
  }
}

/** Revokes the owner's live connection (of the organization if null), and returns its id. */
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
  throw errorAt(
    'validation_error',
    'credential',
    `an organization has at most ${mostConnections} connections: revoke some that are not used`,
  )
}
