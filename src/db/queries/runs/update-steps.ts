import { sql, type RawBuilder } from 'kysely'

/** Returns a CTE that saves the state of steps. */
export const updateSteps = (rows: readonly object[]): RawBuilder<unknown> => sql`moved_steps as (
    update run_steps set status = r.status, verdict = r.verdict, attempts = r.attempts, labels = r.labels,
      error = r.error, started_at = r.started_at, finished_at = r.finished_at
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(run_id text, step_id text,
      status text, verdict text, attempts int, labels text[], error jsonb, started_at timestamptz,
      finished_at timestamptz)
    where run_steps.run_id = r.run_id and run_steps.step_id = r.step_id
  )`
