import { sql } from 'kysely'
import type { Context } from '../../context.ts'

/* The counters of what organizations keep, outside of the transactions that move them (docs/decisions/0074). */

/** What an organization keeps: MiB, approvals, rules with label rules. */
export interface StorageUsage {
  readonly storage_mb: number
  readonly pending_approvals: number
  readonly rules: number
  readonly memory_mb: number
}

const mebibytes = (bytes: number): number => Math.round((bytes / 1024 ** 2) * 1_000) / 1_000

export async function readUsage({ db }: Context, organizationId: string): Promise<StorageUsage> {
  const { rows } = await sql<{ bytes: number; pending: number; rules: number; memory: number }>`
    select h.stored_bytes + moved.bytes as bytes, h.pending_approvals + moved.pending as pending,
           (select count(*) from rules where organization_id = h.organization_id)
           + (select count(*) from label_rules where organization_id = h.organization_id) as rules,
           coalesce((select bytes from memory_usage where organization_id = h.organization_id), 0) as memory
    from chain_head h cross join lateral (
      select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
      from storage_moves where organization_id = h.organization_id
    ) as moved
    where h.organization_id = ${organizationId}`.execute(db)
  const row = rows[0] ?? { bytes: 0, pending: 0, rules: 0, memory: 0 }
  return {
    storage_mb: mebibytes(row.bytes),
    pending_approvals: row.pending,
    rules: row.rules,
    memory_mb: mebibytes(row.memory),
  }
}

/** Most organizations whose moves are added up in one round, and most moves of one of them in one transaction. */
const mostOrganizations = 1_000
const mostMoves = 10_000

/**
 * Adds what `storage_moves` holds to the counters: the rows go in the transaction that counts them. Takes an organization's
 * row of `chain_head` first, as everybody does.
 */
export async function gatherMoves({ db }: Context): Promise<void> {
  const { rows } = await sql<{ organization_id: string }>`
    select distinct organization_id from storage_moves limit ${mostOrganizations}`.execute(db)
  for (const { organization_id: id } of rows)
    await db.transaction().execute(async (trx) => {
      await sql`select from chain_head where organization_id = ${id} for update`.execute(trx)
      await sql`
        with gone as (
          delete from storage_moves
          where id in (select id from storage_moves where organization_id = ${id} limit ${mostMoves})
          returning bytes, pending
        )
        update chain_head set stored_bytes = stored_bytes + gone.bytes,
          pending_approvals = pending_approvals + gone.pending
        from (select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
              from gone) as gone
        where organization_id = ${id}`.execute(trx)
    })
}

/** How far the counters of an organization are from what its rows add up to, read at one moment. */
export async function readDrift(
  { db }: Pick<Context, 'db'>,
  organizationId: string,
): Promise<{ readonly bytes: number; readonly pending: number }> {
  const { rows } = await sql<{ bytes: number; pending: number }>`
    select h.stored_bytes + m.bytes - r.bytes as bytes, h.pending_approvals + m.pending - r.pending as pending
    from chain_head h cross join lateral recount_storage(h.organization_id) as r cross join lateral (
      select coalesce(sum(bytes), 0)::bigint as bytes, coalesce(sum(pending), 0)::bigint as pending
      from storage_moves where organization_id = h.organization_id
    ) as m
    where h.organization_id = ${organizationId}`.execute(db)
  return rows[0] ?? { bytes: 0, pending: 0 }
}

/** Most organizations whose rows are counted anew in one round. */
const mostRecounted = 100

/** Counts the rows of those organizations anew that are due. */
export async function recount(context: Context): Promise<void> {
  for (let done = 0; done < mostRecounted && (await recountOne(context));) done += 1
}

/**
 * Counts all rows of one organization anew, of those not counted for a day the one that waits longest, and mends what is
 * wrong by a move: whatever happens meanwhile is counted beside it. Answers whether there was one. A drift means that an
 * older version wrote beside this one, or a mistake of ours, so that it is logged.
 */
async function recountOne(context: Context): Promise<boolean> {
  const { rows } = await sql<{ organization_id: string }>`
    update chain_head set storage_counted_at = clock_timestamp()
    where organization_id = (
      select organization_id from chain_head where storage_counted_at < clock_timestamp() - interval '1 day'
      order by storage_counted_at limit 1 for update skip locked)
    returning organization_id`.execute(context.db)
  const [due] = rows
  if (due === undefined) return false
  const { organization_id: id } = due
  const { bytes, pending } = await readDrift(context, id)
  if (bytes === 0 && pending === 0) return true
  context.log.error(
    { organization_id: id, bytes, pending_approvals: pending },
    'the counters of what an organization keeps were wrong and have been mended',
  )
  await context.db
    .insertInto('storage_moves')
    .values({ organization_id: id, bytes: -bytes, pending: -pending })
    .execute()
  return true
}
