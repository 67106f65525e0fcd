import { sql, type RawBuilder } from 'kysely'

/** Removes the inputs and results of at most `batch` runs that ended more than `days` ago. Returns these runs. */
export const removeValuesOfOldRuns = (
  days: number,
  batch: number,
): RawBuilder<{ readonly id: string }> => sql`
  update runs set inputs_sealed = null, result_sealed = null, stored_bytes = 0, idempotency_key = null,
    data_removed_at = clock_timestamp()
  where id in (select id from runs
               where data_removed_at is null and finished_at < clock_timestamp() - ${days}::float8 * interval '1 day'
               order by finished_at limit ${batch} for update skip locked)
  returning id`
