import { sql, type RawBuilder } from 'kysely'

/** Skips events that another process has locked. */
export const newWebhookEvents = <Event>(batch: number): RawBuilder<Event> => sql`
  select e.id, e.organization_id, e.type, e.data, e.created_at, e.webhook_ids, w.id as workflow_id,
         w.name as workflow_name, coalesce(a.requested_by, r.requested_by, s.user_id) as requested_by,
         case when a.id is null then null else json_build_object(
           'kind', a.kind, 'run_id', a.run_id, 'session_id', a.session_id, 'step_id', a.step_id,
           'item_index', a.item_index, 'tool', a.tool, 'rule_name', a.rule_name, 'risk', a.risk->>'level',
           'approver', a.approver, 'expires_at', a.expires_at,
           'changes_requested', exists (select from approval_votes v where v.approval_id = a.id and v.changes_requested)
         ) end as approval
  from webhook_events e
  left join approvals a on a.id = e.data->>'approval_id'
  left join runs r on r.id = e.data->>'run_id'
  left join agent_sessions s on s.id = e.data->>'session_id'
  left join workflows w on w.id = coalesce(e.data->>'workflow_id', a.workflow_id)
  where e.message is null
  order by e.id limit ${batch}
  for update of e skip locked`
