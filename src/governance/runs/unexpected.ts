import { sql } from 'kysely'
import type { Context } from '../../context.ts'

/**
 * Counts one error that nobody foresaw against an activity of a run, committed at once; answers how many it has had, 0
 * for a run that is not there. A count of its own: Temporal's attempts count outages too.
 */
export async function countUnexpected(context: Context, runId: string, activityId: string): Promise<number> {
  const { rows } = await sql<{ errors: number }>`
    insert into unexpected_errors (run_id, activity_id)
    select id, ${activityId} from runs where id = ${runId}
    on conflict (run_id, activity_id) do update set errors = unexpected_errors.errors + 1, last_at = now()
    returning errors`.execute(context.db)
  return rows[0]?.errors ?? 0
}
