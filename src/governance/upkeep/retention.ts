import { sql } from 'kysely'
import { removeValuesOfOldRuns, removeOldNotifications } from '../../db/queries/upkeep.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Context } from '../context.ts'

/** One transaction removes at most this many rows, or the data of at most this many runs. */
const batch = 50

/**
 * Removes old data. The cutoff is RETENTION_DAYS days before now. If RETENTION_DAYS is 0, only `removeUnkept` removes
 * data. Otherwise this function also removes:
 *
 * - inputs, sealed parameters, outputs, results and events of runs that ended before the cutoff;
 * - uploaded files that no run has used since the cutoff;
 * - sealed inputs of agents' calls that were decided before the cutoff;
 * - connections that were revoked before the cutoff;
 * - messages from before the cutoff, unless they are about something that still waits.
 *
 * Runs, steps, decisions, approvals and the audit log stay for ever, with hashes of the removed data. Returns the
 * number of runs whose data was removed. Several processes may call this function at the same time, because each
 * process takes different rows.
 */
export async function removeOldData(context: Pick<Context, 'config' | 'db'>): Promise<number> {
  const { retentionDays } = context.config
  await removeUnkept(context.db)
  if (retentionDays === 0) return 0
  await inBatches(() =>
    sql`
      update approvals set params_sealed = null
      where id in (select id from approvals
                   where kind = 'agent_call' and params_sealed is not null and status <> 'pending'
                     and decided_at < clock_timestamp() - ${retentionDays}::float8 * interval '1 day'
                   limit ${batch} for update skip locked)`.execute(context.db),
  )
  await inBatches(() =>
    sql`
      delete from connections
      where id in (select id from connections
                   where revoked_at < clock_timestamp() - ${retentionDays}::float8 * interval '1 day'
                   limit ${batch} for update skip locked)`.execute(context.db),
  )
  await inBatches(() =>
    sql`
      delete from files
      where id in (select id from files
                   where coalesce(last_used_at, created_at) < clock_timestamp() - ${retentionDays}::float8 * interval '1 day'
                   limit ${batch} for update skip locked)`.execute(context.db),
  )
  await inBatches(() => removeNotifications(context.db, retentionDays))
  for (let removed = 0; ;) {
    const count = await removeBatch(context.db, retentionDays)
    removed += count
    if (count < batch) return removed
  }
}

/**
 * Removes the inputs of agents' calls in organizations that have switched `keep_decision_params` off. In such an
 * organization, an input is kept only while its approval is pending (docs/decisions/0051).
 */
async function removeUnkept(db: Db): Promise<void> {
  await inBatches(() =>
    sql`
      update approvals set params_sealed = null
      where id in (select a.id from approvals a join organizations o on o.id = a.organization_id
                   where a.kind = 'agent_call' and a.params_sealed is not null and a.status <> 'pending'
                     and not coalesce((o.settings->>'keep_decision_params')::boolean, true)
                   limit ${batch} for update of a skip locked)`.execute(db),
  )
}

async function inBatches(remove: () => Promise<{ readonly numAffectedRows?: bigint }>): Promise<void> {
  for (;;) if (((await remove()).numAffectedRows ?? 0n) < batch) return
}

/**
 * Removes old messages, each with all of its rows in `notifications`. Keeps a message while its subject still waits,
 * because the service edits the message when the wait ends.
 */
const removeNotifications = (db: Db, days: number) => removeOldNotifications(days, batch).execute(db)

function removeBatch(db: Db, days: number): Promise<number> {
  return db.transaction().execute(async (trx) => {
    const { rows } = await removeValuesOfOldRuns(days, batch).execute(trx)
    const ids = rows.map((row) => row.id)
    if (ids.length === 0) return 0
    await sql`update effects set params_sealed = null, output_sealed = null, error_detail_sealed = null where run_id = any(${ids})`.execute(
      trx,
    )
    await sql`update approvals set params_sealed = null, state_sealed = null where run_id = any(${ids})`.execute(
      trx,
    )
    await sql`delete from run_events where run_id = any(${ids})`.execute(trx)
    return ids.length
  })
}
