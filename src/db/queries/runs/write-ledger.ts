import { sql, type RawBuilder } from 'kysely'

/** Columns of numbered (`n`) JSON rows without sealed values. `sets_detail` also sets `error_detail_sealed`. */
const effectColumns = sql`n int, run_id text, step_id text, item_index int, tool text, state text, attempt int,
  failures int, resolved_outcome text, params_hash text, labels text[], label_sources jsonb, decision_id text,
  approval_id text, output_labels text[], error jsonb, past_outcomes jsonb, intent_at timestamptz, sent_at timestamptz,
  sent_with text, finished_at timestamptz, duration_ms int, wants_slot boolean, bodies int, body_counted boolean, until timestamptz, sets_detail boolean`

/** CTE. `rows` is the result of `numbered`, with one binary value for each in the other lists. */
export const insertNewEffects = (given: {
  readonly organizationId: string
  readonly rows: string
  readonly outputs: readonly (Buffer | null)[]
  readonly sealed: readonly (Buffer | null)[]
  readonly details: readonly (Buffer | null)[]
}): RawBuilder<unknown> => sql`new_effects as (
    insert into effects (organization_id, run_id, step_id, item_index, tool, state, attempt, failures,
      resolved_outcome, params_hash, labels, label_sources, decision_id, approval_id, output_labels, error, past_outcomes, intent_at,
      sent_at, sent_with, finished_at, duration_ms, wants_slot, bodies, body_counted, until, output_sealed, params_sealed, error_detail_sealed)
    select ${given.organizationId}, r.run_id, r.step_id, r.item_index, r.tool, r.state, r.attempt, r.failures,
      r.resolved_outcome, r.params_hash, r.labels, r.label_sources, r.decision_id, r.approval_id, r.output_labels,
      r.error, r.past_outcomes, r.intent_at, r.sent_at, r.sent_with, r.finished_at, r.duration_ms, r.wants_slot, r.bodies, r.body_counted, r.until, o.output, o.sealed, o.detail
    from json_to_recordset(${given.rows}::json) as r(${effectColumns})
    join unnest(${given.outputs}::bytea[], ${given.sealed}::bytea[], ${given.details}::bytea[])
      with ordinality as o(output, sealed, detail, n) on o.n = r.n
  )`

/** CTE, as `insertNewEffects`. A null in `outputs` leaves the stored one. */
export const updateMovedEffects = (given: {
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
    from json_to_recordset(${given.rows}::json) as r(${effectColumns})
    join unnest(${given.outputs}::bytea[], ${given.details}::bytea[])
      with ordinality as o(output, detail, n) on o.n = r.n
    where e.run_id = r.run_id and e.step_id = r.step_id and e.item_index = r.item_index
  )`

/** CTE. */
export const updateRuns = (rows: readonly object[]): RawBuilder<unknown> => sql`moved_runs as (
    update runs set status = r.status, status_reason = r.status_reason, decision_seq = r.decision_seq,
      stored_bytes = r.stored_bytes, nodes_executed = r.nodes_executed, nodes_failed = r.nodes_failed, started_at = r.started_at,
      slot = r.slot, cost = r.cost
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, status text,
      status_reason text, decision_seq int, stored_bytes bigint, nodes_executed int, nodes_failed int, started_at timestamptz,
      slot text, cost numeric)
    where runs.id = r.id
  )`

/** CTE. */
export const updateSteps = (rows: readonly object[]): RawBuilder<unknown> => sql`moved_steps as (
    update run_steps set status = r.status, verdict = r.verdict, attempts = r.attempts, labels = r.labels,
      error = r.error, started_at = r.started_at, finished_at = r.finished_at
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(run_id text, step_id text,
      status text, verdict text, attempts int, labels text[], error jsonb, started_at timestamptz,
      finished_at timestamptz)
    where run_steps.run_id = r.run_id and run_steps.step_id = r.step_id
  )`
