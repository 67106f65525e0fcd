import { sql, type RawBuilder } from 'kysely'

/** With votes, decision, agent, settings, and at most `mostDeciders` admins and owners, owners first. */
export const readApprovalDetail = <Row>(given: {
  readonly approvalId: string
  readonly organizationId: string
  readonly isOver: RawBuilder<boolean>
  readonly mostDeciders: number
}): RawBuilder<Row> => sql`
  select a.kind, a.status, a.requested_by, a.authors, a.approver, a.approvals_needed,
    ${given.isOver} as is_over, s.agent_name, s.agent_kind,
    a.rule_name, d.explanation, d.matched_rules, d.label_sources, o.settings, r.outcome as observed_outcome,
    r.at as observed_at,
    coalesce((select json_agg(json_build_object('user_id', v.user_id, 'decision', v.decision, 'role', m.role))
              from approval_votes v
                left join memberships m on m.organization_id = a.organization_id and m.user_id = v.user_id
              where v.approval_id = a.id), '[]') as votes,
    coalesce((select json_agg(json_build_object('user_id', m.user_id, 'role', m.role))
              from (select user_id, role from memberships
                    where organization_id = a.organization_id and role in ('admin', 'owner')
                    order by role = 'owner' desc limit ${given.mostDeciders}) m), '[]') as deciders
  from approvals a join organizations o on o.id = a.organization_id
    left join agent_sessions s on s.id = a.session_id
    left join lateral (select explanation, matched_rules, label_sources from decisions where approval_id = a.id
                       order by decided_at limit 1) d on true
    left join lateral (select o.outcome, o.at from decisions used join agent_observations o on o.decision_id = used.id
                       where used.approval_id = a.id and used.verdict = 'allow'
                       order by o.at limit 1) r on a.kind = 'agent_call'
  where a.id = ${given.approvalId} and a.organization_id = ${given.organizationId}`
