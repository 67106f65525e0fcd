import { sql, type RawBuilder } from 'kysely'
import type { Role } from '../../../policy/types.ts'

/** Of `approvals`, with the votes, and the decision that required the approval. */
export const approvalColumns = sql`id, kind, run_id, workflow_id, step_id, item_index, session_id, requested_by, authors, params_hash, labels,
  rule_name, supersedes_id, held_again, state_changes, approver, approvals_needed, expires_at, status, decided_at, used_at, used_by, superseded_by,
  (select d.id from decisions d where d.approval_id = approvals.id order by d.decided_at limit 1) as decision_id,
  coalesce((select json_agg(json_build_object('user_id', v.user_id, 'email', u.email, 'decision', v.decision,
                                              'comment', v.comment, 'changes_requested', v.changes_requested))
            from approval_votes v join users u on u.id = v.user_id where v.approval_id = approvals.id), '[]') as votes`

/** With the present roles of its voters. */
export const newestApproval = <Approval>(
  organizationId: string,
  where: RawBuilder<unknown>,
): RawBuilder<{
  readonly approval: Approval
  readonly tool: string | null
  readonly roles: Record<string, Role> | null
}> => sql`
  select to_json(a) as approval, a.tool, (
      select json_object_agg(user_id, role) from memberships
      where organization_id = ${organizationId}
        and user_id in (select v.user_id from approval_votes v where v.approval_id = a.id)
    ) as roles
  from (select ${approvalColumns}, tool from approvals where ${where} order by id desc limit 1) as a`

/** Organizations take turns: the first of each, then the second of each, and so on. */
export const readDueApprovals = (
  isOver: RawBuilder<boolean>,
  most: number,
): RawBuilder<{ readonly id: string; readonly organization_id: string }> => sql`
  select id, organization_id from (
    select id, organization_id, expires_at,
      row_number() over (partition by organization_id order by expires_at, id) as turn
    from approvals where status = 'pending' and ${isOver}) due
  order by turn, expires_at limit ${most}`

/** The approving votes that count now, as in `countingVotes` of src/governance/approvals/requirement.ts. */
export const countingVotesOf = (allowsOwn: boolean): RawBuilder<number> => sql<number>`(
  select count(*) from approval_votes v
    join memberships m on m.organization_id = approvals.organization_id and m.user_id = v.user_id
  where v.approval_id = approvals.id and v.decision = 'approve'
    and (m.role = 'owner' or (m.role = 'admin' and approvals.approver = 'admin'))
    and (${allowsOwn} or v.user_id <> all(approvals.authors || approvals.requested_by)))`
