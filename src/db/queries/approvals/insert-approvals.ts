import { sql, type RawBuilder } from 'kysely'
import { numbered } from '../rows.ts'

/**
 * Returns a CTE that inserts approvals. `sealed` and `states` have one binary value for each row, in the order of the
 * rows.
 */
export const insertNewApprovals = ({
  organizationId,
  now,
  rows,
  sealed,
  states,
}: {
  readonly organizationId: string
  readonly now: Date
  readonly rows: readonly object[]
  readonly sealed: readonly (Buffer | null)[]
  readonly states: readonly (Buffer | null)[]
}): RawBuilder<unknown> => sql`new_approvals as (
    insert into approvals (organization_id, id, kind, status, run_id, step_id, item_index, session_id, workflow_id, tool,
      side_effect, destination, params_hash, rule_id, rule_name, labels, risk, requested_by, authors, approver, approvals_needed, created_at,
      expires_at, supersedes_id, held_again, state_changes, params_sealed, state_sealed)
    select ${organizationId}, r.id, r.kind, r.status, r.run_id, r.step_id, r.item_index, r.session_id, r.workflow_id, r.tool,
      r.side_effect, r.destination, r.params_hash, r.rule_id, r.rule_name, r.labels, r.risk, r.requested_by, r.authors, r.approver,
      r.approvals_needed, ${now}::timestamptz, r.expires_at, r.supersedes_id, r.held_again, r.state_changes, o.sealed, o.state
    from json_to_recordset(${numbered(rows)}::json) as r(n int, id text, kind text, status text, run_id text,
      step_id text, item_index int, session_id text, workflow_id text, tool text, side_effect text, destination text, params_hash text, rule_id text,
      rule_name text, labels text[], risk jsonb, requested_by text, authors text[], approver text, approvals_needed int,
      expires_at timestamptz, supersedes_id text, held_again text, state_changes int)
    join unnest(${sealed}::bytea[], ${states}::bytea[]) with ordinality as o(sealed, state, n) on o.n = r.n
  )`
