import { sql, type RawBuilder } from 'kysely'
import type { ApprovalKind, ApprovalStatus } from '../../../contract/status.ts'
import type { Role } from '../../../policy/types.ts'
import type { Risk } from '../../schema/runs.ts'

export interface ApprovalRow {
  readonly id: string
  readonly kind: ApprovalKind
  readonly status: ApprovalStatus
  readonly is_over: boolean
  readonly superseded_by: string | null
  readonly run_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly item_count: number | null
  readonly session_id: string | null
  readonly tool: string | null
  readonly destination: string | null
  readonly workflow_name: string | null
  readonly agent_name: string | null
  readonly rule_name: string | null
  readonly labels: readonly string[]
  readonly risk: Risk
  readonly requested_by: string
  readonly authors: readonly string[]
  readonly requester_email: string
  readonly approver: 'admin' | 'owner'
  readonly approvals_needed: number
  readonly created_at: Date
  readonly expires_at: Date | null
  readonly votes: readonly {
    readonly user_id: string
    readonly email: string
    /** The voter's role now; null if the voter has left. */
    readonly role: Role | null
    readonly decision: 'approve' | 'reject'
    readonly changes_requested: boolean
  }[]
}

/**
 * Reads what messages show about an organization's approvals. `where` and `isOver` are SQL conditions with the alias
 * `a` of `approvals`.
 */
export const selectApprovalSubjects = ({
  organizationId,
  isOver,
  where,
}: {
  readonly organizationId: string
  readonly isOver: RawBuilder<boolean>
  readonly where: RawBuilder<unknown>
}): RawBuilder<ApprovalRow> => sql`
  select a.id, a.kind, a.status, ${isOver} as is_over, a.superseded_by, a.run_id,
    a.step_id, a.item_index, t.item_count, a.session_id, a.tool, a.destination, w.name as workflow_name, s.agent_name, a.rule_name,
    a.labels, a.risk, a.requested_by, a.authors, u.email as requester_email, a.approver, a.approvals_needed, a.created_at, a.expires_at,
    coalesce((select json_agg(json_build_object('user_id', v.user_id, 'email', p.email, 'role', m.role,
                                                'decision', v.decision, 'changes_requested', v.changes_requested)
                              order by v.at)
              from approval_votes v join users p on p.id = v.user_id
                left join memberships m on m.organization_id = a.organization_id and m.user_id = v.user_id
              where v.approval_id = a.id), '[]') as votes
  from approvals a join users u on u.id = a.requested_by
    left join workflows w on w.id = a.workflow_id
    left join agent_sessions s on s.id = a.session_id
    left join run_steps t on t.run_id = a.run_id and t.step_id = a.step_id
  where a.organization_id = ${organizationId} and ${where}
  order by a.id`
