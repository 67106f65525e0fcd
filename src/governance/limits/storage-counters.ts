import { sql } from 'kysely'
import { readStorageDrift, addStorageMoves, readStoredAmounts } from '../../db/queries/limits.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Log } from '../../shared/log.ts'

/* Keeps the counters of stored data right, outside the transactions that store it (docs/decisions/0074). */

/** `_mb` is in MiB. `rules` counts rules and label rules. */
export interface StorageUsage {
  readonly storage_mb: number
  readonly pending_approvals: number
  readonly rules: number
  readonly memory_mb: number
}

const mebibytes = (bytes: number): number => Math.round((bytes / 1024 ** 2) * 1_000) / 1_000

export async function readUsage(db: Db, organizationId: string): Promise<StorageUsage> {
  const { rows } = await readStoredAmounts(organizationId).execute(db)
  const row = rows[0] ?? { bytes: 0, pending: 0, rules: 0, memory: 0 }
  return {
    storage_mb: mebibytes(row.bytes),
    pending_approvals: row.pending,
    rules: row.rules,
    memory_mb: mebibytes(row.memory),
  }
}

/** For one round, and for each organization in it. */
const mostOrganizations = 1_000
const mostMoves = 10_000

/**
 * Adds `storage_moves` to the counters, and deletes them. A trigger writes them for transactions without the lock of
 * the organization, such as the pruning of old data. Each organization gets its own transaction, which locks its
 * `chain_head` first.
 */
export async function gatherMoves(db: Db): Promise<void> {
  const { rows } = await sql<{ organization_id: string }>`
    select distinct organization_id from storage_moves limit ${mostOrganizations}`.execute(db)
  for (const { organization_id: id } of rows)
    await db.transaction().execute(async (trx) => {
      await sql`select from chain_head where organization_id = ${id} for update`.execute(trx)
      await addStorageMoves(id, mostMoves).execute(trx)
    })
}

/** How much higher the counters are than a new count of the rows, from one snapshot. */
export async function readDrift(
  db: Db,
  organizationId: string,
): Promise<{ readonly bytes: number; readonly pending: number }> {
  const { rows } = await readStorageDrift(organizationId).execute(db)
  return rows[0] ?? { bytes: 0, pending: 0 }
}

/** Recounts each organization once a day. */
export async function recount(db: Db, log: Log): Promise<void> {
  for (let done = 0; done < 100 && (await recountOne(db, log));) done += 1
}

/**
 * Returns false if no count is older than a day. Overwriting the counters would lose concurrent changes, so the
 * difference goes to `storage_moves`. It is logged as an error, because its cause is a bug.
 */
async function recountOne(db: Db, log: Log): Promise<boolean> {
  const { rows } = await sql<{ organization_id: string }>`
    update chain_head set storage_counted_at = clock_timestamp()
    where organization_id = (
      select organization_id from chain_head where storage_counted_at < clock_timestamp() - interval '1 day'
      order by storage_counted_at limit 1 for update skip locked)
    returning organization_id`.execute(db)
  const [due] = rows
  if (due === undefined) return false
  const { organization_id: id } = due
  const { bytes, pending } = await readDrift(db, id)
  if (bytes === 0 && pending === 0) return true
  log.error(
    { organization_id: id, bytes, pending_approvals: pending },
    'the storage counters of an organization were wrong and have been corrected',
  )
  await db
    .insertInto('storage_moves')
    .values({ organization_id: id, bytes: -bytes, pending: -pending })
    .execute()
  return true
}
