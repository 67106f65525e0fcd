import { sql, type RawBuilder } from 'kysely'

/** A call that may have happened becomes `unknown_outcome` and is returned, every other one `cancelled`. */
export const endOpenEffects = <Call>(given: {
  readonly runId: string
  readonly now: Date
  readonly mayHaveHappened: RawBuilder<unknown>
}): RawBuilder<Call> => sql`
  with ended as (
    update effects set
      state = case when ${given.mayHaveHappened} then 'unknown_outcome' else 'cancelled' end,
      finished_at = case when ${given.mayHaveHappened} then null else ${given.now}::timestamptz end
    where run_id = ${given.runId} and state in ('held', 'intent', 'sent', 'retry')
    returning state, step_id, item_index, tool
  )
  select step_id, nullif(item_index, -1) as item_index, tool from ended where state = 'unknown_outcome'`
