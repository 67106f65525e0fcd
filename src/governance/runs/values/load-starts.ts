import { sql } from 'kysely'
import type { EffectKey } from '../../../contract/ids.ts'
import { countCallStart } from '../../../db/queries/runs.ts'
import type { Db } from '../../../db/schema/index.ts'

/**
 * A load that did not finish has probably crashed a worker. After one such load, the call's values are loaded
 * alone, so that no other load is blamed. After this many, the call fails.
 */
export const mostStarts = 3

/** Commits at once. Returns null if the run was cancelled or has ended. */
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

/** Tries again if the statement fails, so that an outage of the database does not count as a crash. */
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

export async function pruneStarts(db: Db): Promise<void> {
  await sql`delete from call_starts c using runs r where r.id = c.run_id and r.finished_at is not null`.execute(
    db,
  )
}
