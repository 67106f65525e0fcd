import { sql, type RawBuilder } from 'kysely'
import type { ApprovalKind, ApprovalStatus } from '../../../contract/status.ts'
import type { Role, SideEffect } from '../../../policy/types.ts'
import type { HeldSeat } from '../../../policy/seats.ts'
import type { Risk } from '../../schema/runs.ts'
import { groupsOfPerson, joinHolder } from '../approvals.ts'

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
  readonly title: string | null
  readonly destination: string | null
  readonly workflow_name: string | null
  readonly agent_name: string | null
  readonly rule_name: string | null
  readonly labels: readonly string[]
  readonly risk: Risk
  readonly requested_by: string
  readonly authors: readonly string[]
  readonly requester_email: string
  readonly approver: 'admin' | 'owner' | null
  readonly approvals_needed: number
  readonly seats: readonly HeldSeat[] | null
  readonly typed_by: readonly string[]
  /** Mail address. */
  readonly answered_by: string | null
  readonly created_at: Date
  readonly remind_at: Date | null
  readonly expires_at: Date | null
  readonly read_at: Date
  readonly votes: readonly {
    readonly user_id: string
    readonly for_user: string | null
    readonly at: string
    readonly email: string
    /** Now; null if the voter has left. */
    readonly role: Role | null
    readonly groups: readonly string[]
    readonly decision: 'approve' | 'reject'
    readonly changes_requested: boolean
  }[]
}

/** `where` and `isOver` are conditions on `a`. */
export const selectApprovalSubjects = (given: {
  readonly organizationId: string
  readonly isOver: RawBuilder<boolean>
  readonly where: RawBuilder<unknown>
}): RawBuilder<ApprovalRow> => sql`
  select a.id, a.kind, a.status, ${given.isOver} as is_over, a.superseded_by, a.run_id,
    a.step_id, a.item_index, t.item_count, a.session_id, a.tool, a.title, a.destination, w.name as workflow_name, s.agent_name, a.rule_name,
    a.labels, a.risk, a.requested_by, a.authors, u.email as requester_email, a.approver, a.approvals_needed, a.seats, a.typed_by,
    (select email from users where id = a.answered_by) as answered_by, a.created_at, a.remind_at, a.expires_at, clock_timestamp() as read_at,
    coalesce((select json_agg(json_build_object('user_id', v.user_id, 'for_user', v.for_user, 'at', v.at, 'email', p.email, 'role', m.role,
                                                'groups', ${groupsOfPerson(sql`m.organization_id`, sql`m.user_id`)},
                                                'decision', v.decision, 'changes_requested', v.changes_requested)
                              order by v.at)
              from approval_votes v join users p on p.id = v.user_id ${joinHolder(sql`a.organization_id`)}
              where v.approval_id = a.id), '[]') as votes
  from approvals a join users u on u.id = a.requested_by
    left join workflows w on w.id = a.workflow_id
    left join agent_sessions s on s.id = a.session_id
    left join run_steps t on t.run_id = a.run_id and t.step_id = a.step_id
  where a.organization_id = ${given.organizationId} and ${given.where}
  order by a.id`

export interface CallRow {
  readonly run_id: string
  readonly step_id: string
  readonly item_index: number
  readonly item_count: number | null
  readonly tool: string
  readonly side_effect: SideEffect | null
  readonly destination: string | null
  readonly state: string
  readonly attempt: number
  readonly resolved: boolean
  readonly run_ended: boolean
  readonly workflow_name: string
  readonly labels: readonly string[]
  readonly requested_by: string
  readonly requester_email: string
  readonly sent_at: Date | null
  readonly created_at: Date
  readonly read_at: Date
}

/** Each call in the attempt `rounds`, or in the newest if null. */
export const selectCallSubjects = (given: {
  readonly organizationId: string
  readonly runIds: readonly string[]
  readonly stepIds: readonly string[]
  readonly itemIndexes: readonly number[]
  readonly rounds: readonly (number | null)[]
}): RawBuilder<CallRow & { readonly round: number }> => sql`
  select e.run_id, e.step_id, e.item_index, t.item_count, e.tool, d.side_effect, d.destination, e.state, e.attempt,
    coalesce(k.round, e.attempt) as round, e.resolved_outcome is not null as resolved,
    r.finished_at is not null as run_ended, w.name as workflow_name, e.labels, r.requested_by, r.requester_email,
    e.sent_at, r.created_at, clock_timestamp() as read_at
  from unnest(${given.runIds}::text[], ${given.stepIds}::text[],
              ${given.itemIndexes}::int[], ${given.rounds}::int[])
         as k(run_id, step_id, item_index, round)
    join effects e on e.run_id = k.run_id and e.step_id = k.step_id and e.item_index = k.item_index
    join runs r on r.id = e.run_id
    join workflows w on w.id = r.workflow_id
    left join decisions d on d.id = e.decision_id
    left join run_steps t on t.run_id = e.run_id and t.step_id = e.step_id
  where r.organization_id = ${given.organizationId}`
