import { sql, type RawBuilder } from 'kysely'
import { effectColumns } from './effect-columns.ts'

/**
 * Returns a CTE that inserts calls. `rows` is the result of `numbered`. Each other list has one binary value for each
 * row, in the order of the rows.
 */
export const insertNewEffects = ({
  organizationId,
  rows,
  outputs,
  sealed,
  details,
}: {
  readonly organizationId: string
  readonly rows: string
  readonly outputs: readonly (Buffer | null)[]
  readonly sealed: readonly (Buffer | null)[]
  readonly details: readonly (Buffer | null)[]
}): RawBuilder<unknown> => sql`new_effects as (
    insert into effects (organization_id, run_id, step_id, item_index, tool, state, attempt, failures,
      resolved_outcome, params_hash, labels, label_sources, decision_id, approval_id, output_labels, error, past_outcomes, intent_at,
      sent_at, sent_with, finished_at, duration_ms, wants_slot, bodies, body_counted, until, output_sealed, params_sealed, error_detail_sealed)
    select ${organizationId}, r.run_id, r.step_id, r.item_index, r.tool, r.state, r.attempt, r.failures,
      r.resolved_outcome, r.params_hash, r.labels, r.label_sources, r.decision_id, r.approval_id, r.output_labels,
      r.error, r.past_outcomes, r.intent_at, r.sent_at, r.sent_with, r.finished_at, r.duration_ms, r.wants_slot, r.bodies, r.body_counted, r.until, o.output, o.sealed, o.detail
    from json_to_recordset(${rows}::json) as r(${effectColumns})
    join unnest(${outputs}::bytea[], ${sealed}::bytea[], ${details}::bytea[])
      with ordinality as o(output, sealed, detail, n) on o.n = r.n
  )`
