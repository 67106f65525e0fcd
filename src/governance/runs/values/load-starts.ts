import { sql } from 'kysely'
import type { EffectKey } from '../../../contract/effect-key.ts'
import { countCallStart } from '../../../db/queries/runs.ts'
import type { Db } from '../../../db/schema/index.ts'

/**
 * A load that was started but did not finish has probably crashed a worker. After this many such loads, the call fails.
 * After one such load, the values of the call are loaded only while no other load runs. So if a worker crashes again,
 * no other load is blamed.
 */
export const mostStarts = 3

/**
 * Counts the start of a call's load and commits at once. Returns the number of starts, or null if the run was cancelled
 * or has ended.
 */
export async function countStart(db: Db, key: EffectKey): Promise<number | null> {
  const { rows } = await countCallStart({
    runId: key.runId,
    stepId: key.stepId,
    itemIndex: key.itemIndex,
  }).execute(db)
  return rows[0]?.starts ?? null
}

/** Returns the number of loads of the call that were started but did not finish. */
export async function readStarts(db: Db, key: EffectKey): Promise<number> {
  const row = await db
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
 * Removes the count of a call's loads. The last load has finished or failed in this process, so it has not crashed a
 * worker. If the statement fails, tries again, so that an outage of the database does not count as a crash.
 */
export async function forgetStarts(db: Db, key: EffectKey, tries = mostSettles): Promise<void> {
  try {
    await db
      .deleteFrom('call_starts')
      .where('run_id', '=', key.runId)
      .where('step_id', '=', key.stepId)
      .where('item_index', '=', key.itemIndex)
      .execute()
  } catch {
    if (tries > 0) setTimeout(() => void forgetStarts(db, key, tries - 1), settleEveryMilliseconds).unref()
  }
}

/** Removes the counts of ended runs. */
export async function pruneStarts(db: Db): Promise<void> {
  await sql`delete from call_starts c using runs r where r.id = c.run_id and r.finished_at is not null`.execute(
    db,
  )
}
