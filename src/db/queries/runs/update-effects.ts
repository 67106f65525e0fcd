import { sql, type RawBuilder } from 'kysely'
import { effectColumns } from './effect-columns.ts'

/**
 * Returns a CTE that saves changed calls. `rows` is the result of `numbered`. Each other list has one binary value for
 * each row, in the order of the rows. A null in `outputs` leaves the stored output unchanged.
 */
export const updateMovedEffects = ({
  rows,
  outputs,
  details,
}: {
  readonly rows: string
  readonly outputs: readonly (Buffer | null)[]
  readonly details: readonly (Buffer | null)[]
}): RawBuilder<unknown> => sql`moved_effects as (
    update effects e set state = r.state, attempt = r.attempt, failures = r.failures,
      resolved_outcome = r.resolved_outcome, labels = r.labels, label_sources = r.label_sources,
      decision_id = r.decision_id, approval_id = r.approval_id, output_labels = r.output_labels, error = r.error,
      past_outcomes = r.past_outcomes, intent_at = r.intent_at, sent_at = r.sent_at, sent_with = r.sent_with, finished_at = r.finished_at, duration_ms = r.duration_ms,
      wants_slot = r.wants_slot, bodies = r.bodies, body_counted = r.body_counted, until = r.until, output_sealed = coalesce(o.output, e.output_sealed),
      error_detail_sealed = case when r.sets_detail then o.detail else e.error_detail_sealed end
    from json_to_recordset(${rows}::json) as r(${effectColumns})
    join unnest(${outputs}::bytea[], ${details}::bytea[])
      with ordinality as o(output, detail, n) on o.n = r.n
    where e.run_id = r.run_id and e.step_id = r.step_id and e.item_index = r.item_index
  )`
