import { sql, type RawBuilder } from 'kysely'

/** A worker begins to load the values of the call. No row if the run is cancelled or has ended. */
export const countCallStart = (given: {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}): RawBuilder<{ readonly starts: number }> => sql`
  insert into call_starts (run_id, step_id, item_index)
  select id, ${given.stepId}, ${given.itemIndex}::int from runs
  where id = ${given.runId} and cancel_requested_at is null and finished_at is null
  on conflict (run_id, step_id, item_index) do update
    set starts = call_starts.starts + 1, started_at = clock_timestamp()
  returning starts`
