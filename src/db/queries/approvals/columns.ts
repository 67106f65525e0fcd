import { sql } from 'kysely'

/**
 * Columns for a query on `approvals`. They include the votes, and the id of the decision that required the approval.
 */
export const approvalColumns = sql`id, kind, run_id, workflow_id, step_id, item_index, session_id, requested_by, authors, params_hash, labels,
  rule_name, supersedes_id, held_again, state_changes, approver, approvals_needed, expires_at, status, decided_at, used_at, used_by, superseded_by,
  (select d.id from decisions d where d.approval_id = approvals.id order by d.decided_at limit 1) as decision_id,
  coalesce((select json_agg(json_build_object('user_id', v.user_id, 'email', u.email, 'decision', v.decision,
                                              'comment', v.comment, 'changes_requested', v.changes_requested))
            from approval_votes v join users u on u.id = v.user_id where v.approval_id = approvals.id), '[]') as votes`
