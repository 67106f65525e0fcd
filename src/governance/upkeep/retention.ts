import { sql } from 'kysely'
import { removeValuesOfOldRuns, removeOldNotifications } from '../../db/queries/upkeep/remove-old.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Configured } from '../context.ts'

/** Rows, or runs whose data is removed, in one transaction. */
const batch = 50

/**
 * Removes what is older than RETENTION_DAYS, unless it is 0 (then only `removeUnkept`):
 * - inputs, sealed parameters, outputs, results and events of runs that have ended;
 * - uploaded files that no run has used;
 * - sealed inputs of agents' calls that were decided, and of decided changes (those for backtests after 30 days at most);
 * - revoked connections;
 * - messages, unless they are about something that still waits.
 *
 * Runs, steps, decisions, approvals and the audit log stay for ever, with hashes of the removed data. Returns the
 * number of runs. Several processes may call this, because each takes different rows.
 */
export async function removeOldData(context: Configured): Promise<number> {
  const { retentionDays } = context.config
  await removeUnkept(context.db)
  const days = retentionDays === 0 ? inputDays : Math.min(inputDays, retentionDays)
  await inBatches(
    () =>
      sql`
      delete from decision_inputs
      where id in (select id from decision_inputs
                            where decided_at < clock_timestamp() - ${days}::float8 * interval '1 day'
                            limit ${inputBatch})`.execute(context.db),
    inputBatch,
  )
  if (retentionDays === 0) return 0
  const cutoff = sql`clock_timestamp() - ${retentionDays}::float8 * interval '1 day'`
  await inBatches(() =>
    sql`
      update approvals set params_sealed = null
      where id in (select id from approvals
                   where kind in ('agent_call', 'change') and params_sealed is not null and status <> 'pending'
                     and decided_at < ${cutoff}
                   limit ${batch} for update skip locked)`.execute(context.db),
  )
  await inBatches(() =>
    sql`
      delete from connections
      where id in (select id from connections
                   where revoked_at < ${cutoff}
                   limit ${batch} for update skip locked)`.execute(context.db),
  )
  await inBatches(() =>
    sql`
      delete from files
      where id in (select id from files
                   where coalesce(last_used_at, created_at) < ${cutoff}
                   limit ${batch} for update skip locked)`.execute(context.db),
  )
  await inBatches(() => removeOldNotifications(retentionDays, batch).execute(context.db))
  for (let removed = 0; ;) {
    const count = await removeBatch(context.db, retentionDays)
    removed += count
    if (count < batch) return removed
  }
}

/** Inputs for backtests are many and small. */
const inputBatch = 1_000
const inputDays = 30

/** An organization may keep less than RETENTION_DAYS says. With `none`, an input is kept only while its approval is pending (docs/decisions/0051). */
async function removeUnkept(db: Db): Promise<void> {
  await inBatches(() =>
    sql`
      update approvals set params_sealed = null
      where id in (select a.id from approvals a join organizations o on o.id = a.organization_id
                   where a.kind = 'agent_call' and a.params_sealed is not null and a.status <> 'pending'
                     and o.settings->>'keep_decision_params' in ('none', 'false')
                   limit ${batch} for update of a skip locked)`.execute(db),
  )
  await inBatches(
    () =>
      sql`
      delete from decision_inputs
      where id in (select i.id from decision_inputs i join organizations o on o.id = i.organization_id
                            where o.settings->>'keep_decision_params' in ('held', 'none', 'false')
                            limit ${inputBatch})`.execute(db),
    inputBatch,
  )
}

async function inBatches(
  remove: () => Promise<{ readonly numAffectedRows?: bigint }>,
  most = batch,
): Promise<void> {
  for (;;) if (((await remove()).numAffectedRows ?? 0n) < most) return
}

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
