import { sql, type RawBuilder } from 'kysely'

/**
 * Ends the open calls of a run. A call that may have happened becomes `unknown_outcome`, and every other call becomes
 * `cancelled`. Returns the calls that may have happened.
 */
export const endOpenEffects = <Call>({
  runId,
  now,
  mayHaveHappened,
}: {
  readonly runId: string
  readonly now: Date
  readonly mayHaveHappened: RawBuilder<unknown>
}): RawBuilder<Call> => sql`
  with ended as (
    update effects set
      state = case when ${mayHaveHappened} then 'unknown_outcome' else 'cancelled' end,
      finished_at = case when ${mayHaveHappened} then null else ${now}::timestamptz end
    where run_id = ${runId} and state in ('held', 'intent', 'sent', 'retry')
    returning state, step_id, item_index, tool
  )
  select step_id, nullif(item_index, -1) as item_index, tool from ended where state = 'unknown_outcome'`
