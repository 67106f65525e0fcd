import { sql, type RawBuilder } from 'kysely'

/** As JSON text for `json_to_recordset`, numbered from 1 in the field `n`. */
export const numbered = (rows: readonly object[]): string =>
  JSON.stringify(rows.map((row, index) => ({ ...row, n: index + 1 })))

/** CTE. One binary value for each row, in their order. */
export const insertNewApprovals = (given: {
  readonly organizationId: string
  readonly now: Date
  readonly rows: readonly object[]
  readonly sealed: readonly (Buffer | null)[]
  readonly states: readonly (Buffer | null)[]
}): RawBuilder<unknown> => sql`new_approvals as (
    insert into approvals (organization_id, id, kind, status, run_id, step_id, item_index, session_id, workflow_id, tool,
      side_effect, destination, params_hash, rule_id, rule_name, labels, risk, requested_by, authors, approver, approvals_needed, created_at,
      expires_at, supersedes_id, held_again, state_changes, params_sealed, state_sealed)
    select ${given.organizationId}, r.id, r.kind, r.status, r.run_id, r.step_id, r.item_index, r.session_id, r.workflow_id, r.tool,
      r.side_effect, r.destination, r.params_hash, r.rule_id, r.rule_name, r.labels, r.risk, r.requested_by, r.authors, r.approver,
      r.approvals_needed, ${given.now}::timestamptz, r.expires_at, r.supersedes_id, r.held_again, r.state_changes, o.sealed, o.state
    from json_to_recordset(${numbered(given.rows)}::json) as r(n int, id text, kind text, status text, run_id text,
      step_id text, item_index int, session_id text, workflow_id text, tool text, side_effect text, destination text, params_hash text, rule_id text,
      rule_name text, labels text[], risk jsonb, requested_by text, authors text[], approver text, approvals_needed int,
      expires_at timestamptz, supersedes_id text, held_again text, state_changes int)
    join unnest(${given.sealed}::bytea[], ${given.states}::bytea[]) with ordinality as o(sealed, state, n) on o.n = r.n
  )`

/** CTE. `decisions` is the JSON text of a list. */
export const insertNewDecisions = (decisions: string): RawBuilder<unknown> => sql`new_decisions as (
    insert into decisions (id, organization_id, run_id, seq, step_id, item_index, attempt, tool, side_effect, destination, verdict,
      rule_id, rule_name, matched_rules, reason, explanation, labels, label_sources, params_hash, approval_id,
      policy_version, decided_at, session_id, tool_use_id, requested_by, input_hash, bytes)
    select * from json_to_recordset(${decisions}::json) as r(id text, organization_id text,
      run_id text, seq int, step_id text, item_index int, attempt int, tool text, side_effect text, destination text, verdict text,
      rule_id text, rule_name text, matched_rules jsonb, reason text, explanation text, labels text[],
      label_sources jsonb, params_hash text, approval_id text, policy_version bigint, decided_at timestamptz,
      session_id text, tool_use_id text, requested_by text, input_hash text, bytes int)
  )`

export const updateApprovals = (rows: readonly object[]): RawBuilder<unknown> => sql`moved_approvals as (
    update approvals set status = r.status, decided_at = r.decided_at, used_at = r.used_at, used_by = r.used_by,
      superseded_by = r.superseded_by
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, status text,
      decided_at timestamptz, used_at timestamptz, used_by text, superseded_by text)
    where approvals.id = r.id
  )`
