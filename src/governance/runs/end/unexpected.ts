import { sql } from 'kysely'
import type { Db } from '../../../db/schema/index.ts'

/**
 * Counts an unexpected error of a run's activity and commits at once. Returns the number of errors so far, or 0 if the
 * run is unknown. Temporal's number of attempts cannot be used instead, because outages also raise that number.
 */
export async function countUnexpected(db: Db, runId: string, activityId: string): Promise<number> {
  const { rows } = await sql<{ errors: number }>`
    insert into unexpected_errors (run_id, activity_id)
    select id, ${activityId} from runs where id = ${runId}
    on conflict (run_id, activity_id) do update set errors = unexpected_errors.errors + 1, last_at = now()
    returning errors`.execute(db)
  return rows[0]?.errors ?? 0
}
