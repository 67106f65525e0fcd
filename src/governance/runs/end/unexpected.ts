import { sql } from 'kysely'
import type { Db } from '../../../db/schema/index.ts'

/** Commits at once; 0 for an unknown run. Temporal's attempts cannot be used, because they count outages. */
export async function countUnexpected(db: Db, runId: string, activityId: string): Promise<number> {
  const { rows } = await sql<{ errors: number }>`
    insert into unexpected_errors (run_id, activity_id)
    select id, ${activityId} from runs where id = ${runId}
    on conflict (run_id, activity_id) do update set errors = unexpected_errors.errors + 1, last_at = now()
    returning errors`.execute(db)
  return rows[0]?.errors ?? 0
}
