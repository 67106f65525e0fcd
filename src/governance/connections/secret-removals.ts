import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import {
  SecretsUnavailable,
  type KeptSecret,
  type SecretOwner,
  type Secrets,
} from '../sealing/secrets-backend.ts'

/*
 * A secret outside the database and its row cannot change together. So the wish to remove a secret is a row of its own:
 * written before the secret is made, taken back when the connection is saved, written again when it is revoked.
 */

/** How long a secret without its connection is kept: longer than any connect takes. */
const orphanAge = sql`interval '1 hour'`
const retryPause = sql`interval '5 minutes'`
/** Secrets that one round removes. */
const batch = 50

/** Keeps a credential for a connection that is not saved yet. Call `adoptSecret` in the transaction that saves it. */
export async function keepSecret(
  { db, secrets }: { readonly db: Db; readonly secrets: Secrets },
  owner: SecretOwner,
  text: string,
): Promise<KeptSecret> {
  if (secrets.backend !== 'db')
    await db
      .insertInto('secret_removals')
      .values({ ...columnsOf(owner), due_at: sql<Date>`clock_timestamp() + ${orphanAge}` })
      .execute()
  return secrets.keep(owner, text)
}

/** The connection of this secret is saved: it stays. */
export async function adoptSecret(tx: ChainTx, connectionId: string, { backend }: KeptSecret): Promise<void> {
  if (backend === 'db') return
  await tx.trx.deleteFrom('secret_removals').where('connection_id', '=', connectionId).execute()
}

/** The connections were revoked: their secrets are to be removed. */
export async function abandonSecrets(
  tx: ChainTx,
  rows: readonly { readonly id: string; readonly backend: KeptSecret['backend'] }[],
): Promise<void> {
  const outside = rows.filter(({ backend }) => backend !== 'db')
  if (outside.length === 0) return
  const { organizationId } = tx
  await tx.trx
    .insertInto('secret_removals')
    .values(outside.map(({ id }) => ({ ...columnsOf({ organizationId, connectionId: id }), due_at: tx.now })))
    .execute()
}

/**
 * Removes secrets that no connection names. One that cannot be removed now is tried again later. Returns how many are
 * gone. Processes that do this at the same time do no harm: removing twice is like removing once.
 */
export async function removeSecrets({
  db,
  secrets,
}: {
  readonly db: Db
  readonly secrets: Secrets
}): Promise<number> {
  if (secrets.backend === 'db') return 0
  const { rows } = await sql<{ connection_id: string; organization_id: string }>`
    update secret_removals set due_at = clock_timestamp() + ${retryPause}
    where connection_id in (select connection_id from secret_removals where due_at <= clock_timestamp()
                            order by due_at limit ${batch} for update skip locked)
    returning connection_id, organization_id`.execute(db)
  let removed = 0
  for (const { connection_id: connectionId, organization_id: organizationId } of rows) {
    try {
      await secrets.remove({ organizationId, connectionId })
    } catch (error) {
      if (error instanceof SecretsUnavailable) continue
      throw error
    }
    await db.deleteFrom('secret_removals').where('connection_id', '=', connectionId).execute()
    removed += 1
  }
  return removed
}

const columnsOf = ({ organizationId, connectionId }: SecretOwner) => ({
  organization_id: organizationId,
  connection_id: connectionId,
})
