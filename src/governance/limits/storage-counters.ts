import { sql } from 'kysely'
import { readStorageDrift, addStorageMoves, readStoredAmounts } from '../../db/queries/limits.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Log } from '../../shared/log.ts'

/*
 * Keeps the counters of stored data correct. These functions run outside the transactions that store the data
 * (docs/decisions/0074).
 */

/**
 * These are the amounts that an organization stores. Fields with `_mb` are in MiB. `rules` counts rules and label
 * rules.
 */
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

/** One round handles at most `mostOrganizations` organizations, and at most `mostMoves` rows of each. */
const mostOrganizations = 1_000
const mostMoves = 10_000

/**
 * Adds the rows of `storage_moves` to the counters, and deletes these rows. A database trigger writes such a row if a
 * transaction changes stored data without the lock of the organization. Example: old data is pruned. Here, each
 * organization gets its own transaction, which first locks the organization's row of `chain_head`.
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

/**
 * Returns how much higher an organization's counters are than a new count of its rows. The numbers are negative if the
 * counters are too low. The counters and the rows are read from one snapshot.
 */
export async function readDrift(
  db: Db,
  organizationId: string,
): Promise<{ readonly bytes: number; readonly pending: number }> {
  const { rows } = await readStorageDrift(organizationId).execute(db)
  return rows[0] ?? { bytes: 0, pending: 0 }
}

/** One round recounts the rows of at most this many organizations. */
const mostRecounted = 100

/** Recounts the rows of each organization if its last recount is more than a day old. */
export async function recount(db: Db, log: Log): Promise<void> {
  for (let done = 0; done < mostRecounted && (await recountOne(db, log));) done += 1
}

/**
 * Recounts the organization with the oldest count, if this count is more than a day old. Returns false if there is no
 * such organization. Does not overwrite the counters, because this would lose concurrent changes. Writes the difference
 * to `storage_moves` instead. Logs a difference as an error, because the cause is a bug.
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
