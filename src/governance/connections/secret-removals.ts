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
 * A secret outside the database and its connection's row cannot change in one transaction. So a row in
 * `secret_removals` is inserted before the secret is made, deleted when the connection is saved, and inserted again
 * when it is revoked. If the process crashes before it is saved, the row remains, and the secret is removed later.
 */

/** When a secret is removed whose connection was not saved. Saving takes less time. */
const orphanAge = sql`interval '1 hour'`
const retryPause = sql`interval '5 minutes'`

/** Call `adoptSecret` in the transaction that saves the connection. */
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

export async function adoptSecret(tx: ChainTx, connectionId: string, { backend }: KeptSecret): Promise<void> {
  if (backend === 'db') return
  await tx.trx.deleteFrom('secret_removals').where('connection_id', '=', connectionId).execute()
}

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

/** Removing a secret twice is no error, so several processes may do this; a failed one is removed by a later round. */
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
                            order by due_at limit 50 for update skip locked)
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
