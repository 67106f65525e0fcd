import { sql, type RawBuilder } from 'kysely'

/**
 * Adds 1 to the number of times that a worker began to load the values of a call. Returns this number. Returns no row
 * if the run is cancelled or has ended.
 */
export const countCallStart = ({
  runId,
  stepId,
  itemIndex,
}: {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}): RawBuilder<{ readonly starts: number }> => sql`
  insert into call_starts (run_id, step_id, item_index)
  select id, ${stepId}, ${itemIndex}::int from runs
  where id = ${runId} and cancel_requested_at is null and finished_at is null
  on conflict (run_id, step_id, item_index) do update
    set starts = call_starts.starts + 1, started_at = clock_timestamp()
  returning starts`
