import { sql } from 'kysely'
import type { Context } from '../../context.ts'
import type { EffectKey } from './ledger.ts'

/**
 * Loads of a call that began and did not come to an end in their process: each has, it seems, ended a worker. After so many
 * the call fails. A call that has one is loaded alone from then on, so that who was loaded beside it is not blamed twice.
 */
export const mostStarts = 3

/**
 * Counts that a call's load begins, committed at once. Answers the starts with this one, or
 * null when the run was cancelled or has ended.
 */
export async function countStart(context: Context, key: EffectKey): Promise<number | null> {
  const { rows } = await sql<{ starts: number }>`
    insert into call_starts (run_id, step_id, item_index)
    select id, ${key.stepId}, ${key.itemIndex}::int from runs
    where id = ${key.runId} and cancel_requested_at is null and finished_at is null
    on conflict (run_id, step_id, item_index) do update
      set starts = call_starts.starts + 1, started_at = clock_timestamp()
    returning starts`.execute(context.db)
  return rows[0]?.starts ?? null
}

/** Starts so far. */
export async function readStarts(context: Context, key: EffectKey): Promise<number> {
  const row = await context.db
    .selectFrom('call_starts')
    .select('starts')
    .where('run_id', '=', key.runId)
    .where('step_id', '=', key.stepId)
    .where('item_index', '=', key.itemIndex)
    .executeTakeFirst()
  return row?.starts ?? 0
}

const [settleEveryMilliseconds, mostSettles] = [1_000, 300]

/**
 * The load came to an end in this process, however: it has ended no worker. Where the database is away it is told later,
 * so that an outage does not count as a death.
 */
export async function forgetStarts(context: Context, key: EffectKey, tries = mostSettles): Promise<void> {
  try {
    await context.db
      .deleteFrom('call_starts')
      .where('run_id', '=', key.runId)
      .where('step_id', '=', key.stepId)
      .where('item_index', '=', key.itemIndex)
      .execute()
  } catch {
    if (tries > 0)
      setTimeout(() => void forgetStarts(context, key, tries - 1), settleEveryMilliseconds).unref()
  }
}

/** Of runs that have ended. */
export async function pruneStarts(context: Context): Promise<void> {
  await sql`delete from call_starts c using runs r where r.id = c.run_id and r.finished_at is not null`.execute(
    context.db,
  )
}
