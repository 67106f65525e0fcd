import { sql, type RawBuilder } from 'kysely'
import type { Role, SideEffect, Verdict } from '../../../policy/types.ts'

/** A recorded decision with the parameters of its call. */
export interface DecidedCall {
  readonly id: string
  readonly run_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly session_id: string | null
  readonly tool: string
  readonly side_effect: SideEffect
  readonly destination: string | null
  readonly verdict: Verdict
  readonly rule_id: string | null
  readonly rule_name: string | null
  readonly reason: string
  readonly labels: string[]
  readonly approval_id: string | null
  readonly decided_at: Date
  /** The address that replaces `me` in the parameters of a run's call. Has no meaning for an agent's call. */
  readonly requester_email: string | null
  /** The present role of the person who asked; null if this person is no longer a member. */
  readonly role: Role | null
  /** The sealed parameters of a run's call. Is null if the parameters were not kept. */
  readonly run_params: Buffer | null
  /** The sealed input of a held call of an agent. Is null if the input was not kept. */
  readonly agent_params: Buffer | null
  /**
   * Says who may decide the approval of an agent's call. For a run's call, says who may decide all approvals of the run.
   * Is null if there is no approval.
   */
  readonly approver: 'admin' | 'owner' | null
  /** The roles that the authors of a run's step had when they saved it. */
  readonly author_roles: Role[] | null
}

/** Selects the decisions with these ids, the newest first. */
export const decidedCalls = (organizationId: string, ids: readonly string[]): RawBuilder<DecidedCall> => sql`
  select d.id, d.run_id, d.step_id, d.item_index, d.session_id, d.tool, d.side_effect, d.destination, d.verdict, d.rule_id, d.rule_name,
    d.reason, d.labels, d.approval_id, d.decided_at, r.requester_email, m.role, e.params_sealed as run_params,
    a.params_sealed as agent_params, s.author_roles,
    coalesce(a.approver, (select max(approver) from approvals where run_id = d.run_id)) as approver
  from decisions d
  left join runs r on r.id = d.run_id
  left join run_steps s on s.run_id = d.run_id and s.step_id = d.step_id
  left join effects e on e.run_id = d.run_id and e.step_id = d.step_id and e.item_index = coalesce(d.item_index, -1)
    and e.params_hash = d.params_hash
  left join approvals a on a.id = d.approval_id and a.kind = 'agent_call' and a.params_hash = d.params_hash
  left join memberships m on m.organization_id = d.organization_id
    and m.user_id = coalesce(d.requested_by, r.requested_by)
  where d.organization_id = ${organizationId} and d.id = any(${ids}::text[])
  order by d.decided_at desc, d.id desc`
