import { sql, type RawBuilder } from 'kysely'
import type { Role, SideEffect, Verdict } from '../../policy/types.ts'
import type { PolicyVersionsTable } from '../schema/policy.ts'

export interface CallDecision {
  readonly id: string
  readonly run_id: string | null
  readonly step_id: string | null
  /** -1 without `for_each`. */
  readonly item_index: number
  readonly session_id: string | null
  readonly tool_use_id: string | null
  readonly params_hash: string | null
  readonly approval_id: string | null
  /** Which the decision's approval replaced. */
  readonly supersedes_id: string | null
  readonly decided_at: Date
  /** A person has typed the parameters that it was about. */
  readonly edited: boolean
  /** The size of the sealed parameters; 0 if they were not kept. */
  readonly bytes: number
}

/** Joins the kept inputs `i` of the decision `d`. */
const inputsOfDecision = sql`i.organization_id = d.organization_id and i.decided_at = d.decided_at and d.id = any(i.decision_ids)`

/** `since` is inclusive, `until` exclusive. */
export const newestDecisions = (
  organizationId: string,
  { since, until }: { readonly since: Date | null; readonly until: Date | null },
  most: number,
): RawBuilder<CallDecision> => sql`
  select d.id, d.run_id, d.step_id, coalesce(d.item_index, -1) as item_index, d.session_id, d.tool_use_id, d.params_hash,
    d.approval_id, a.supersedes_id, d.decided_at, e.revision is not null and e.params_hash = d.params_hash as edited,
    coalesce(octet_length(e.params_sealed), octet_length(a.params_sealed), i.bytes / cardinality(i.decision_ids), 0) as bytes
  from decisions d
  left join approvals a on a.id = d.approval_id
  left join decision_inputs i on ${inputsOfDecision}
  left join effects e on e.run_id = d.run_id and e.step_id = d.step_id and e.item_index = coalesce(d.item_index, -1)
  where d.organization_id = ${organizationId} and d.decided_at >= coalesce(${since}::timestamptz, '-infinity')
    and d.decided_at < coalesce(${until}::timestamptz, 'infinity')
  order by d.decided_at desc, d.id desc limit ${most}`

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
  /** Replaces `me` in the parameters of a run's call. */
  readonly requester_email: string | null
  /** The person who asked. */
  readonly asker: string | null
  /** The present role of the person who asked; null for a former member. */
  readonly role: Role | null
  /** Parameters of a run's call, if they were kept. */
  readonly run_params: Buffer | null
  /** Input of a held call of an agent, if it was kept. */
  readonly agent_params: Buffer | null
  /** Only a call that was not held has them, sealed with those of other calls. `kept_line` is its own, from 0. */
  readonly kept_inputs: Buffer | null
  readonly kept_id: string | null
  readonly kept_line: number | null
  /** Who may decide the approval of an agent's call, or all approvals of a run. */
  readonly approver: 'admin' | 'owner' | null
  /** Whether groups alone decide it, or one of them. */
  readonly by_groups: boolean
  /** When they saved the step. */
  readonly author_roles: Role[] | null
  /** The present roles of the people who typed parameters; null for former members. */
  readonly typist_roles: (Role | null)[]
}

/** Newest first. */
export const decidedCalls = (organizationId: string, ids: readonly string[]): RawBuilder<DecidedCall> => sql`
  select d.id, d.run_id, d.step_id, d.item_index, d.session_id, d.tool, d.side_effect, d.destination, d.verdict, d.rule_id, d.rule_name,
    d.reason, d.labels, d.approval_id, d.decided_at, r.requester_email, m.user_id as asker, m.role, e.params_sealed as run_params,
    a.params_sealed as agent_params, i.sealed as kept_inputs, i.id as kept_id,
    array_position(i.decision_ids, d.id) - 1 as kept_line, s.author_roles,
    array(select t.role from jsonb_each_text(e.revision->'typed') as typed
          left join memberships t on t.organization_id = d.organization_id and t.user_id = typed.value) as typist_roles,
    coalesce(a.approver, (select max(approver) from approvals where run_id = d.run_id)) as approver,
    coalesce(a.approver is null and a.seats is not null, false)
      or exists (select from approvals where run_id = d.run_id and approver is null) as by_groups
  from decisions d
  left join runs r on r.id = d.run_id
  left join run_steps s on s.run_id = d.run_id and s.step_id = d.step_id
  left join effects e on e.run_id = d.run_id and e.step_id = d.step_id and e.item_index = coalesce(d.item_index, -1)
    and e.params_hash = d.params_hash
  left join approvals a on a.id = d.approval_id and a.kind = 'agent_call' and a.params_hash = d.params_hash
  left join decision_inputs i on ${inputsOfDecision}
  left join memberships m on m.organization_id = d.organization_id
    and m.user_id = coalesce(d.requested_by, r.requested_by)
  where d.organization_id = ${organizationId} and d.id = any(${ids}::text[])
  order by d.decided_at desc, d.id desc`

/** Before a change of the rule `id` (`then`) and after it (`now`), which adds the labels `before` and `after`. */
export const countAddedLabels = (given: {
  readonly organizationId: string
  readonly id: string
  readonly before: readonly string[]
  readonly after: readonly string[]
}): RawBuilder<{ readonly then: number; readonly now: number }> => sql`
  with others as (
    select distinct label from label_rules r cross join jsonb_array_elements_text(r.body->'add_labels') as label
    where r.organization_id = ${given.organizationId} and r.id <> ${given.id} and r.body->>'status' = 'active'
  )
  select (select count(*) from (select label from others union select unnest(${given.before}::text[])) as a) as then,
         (select count(*) from (select label from others union select unnest(${given.after}::text[])) as b) as now`

/** `values` counts values, labels and tools. */
export const measureRules = (
  organizationId: string,
): RawBuilder<{ readonly bytes: number; readonly values: number }> => sql`
  select coalesce(sum(octet_length(body::text)), 0)::float8 as bytes,
         coalesce(sum(jsonb_array_length(jsonb_path_query_array(body, '$.params[*].value[*]'))
                    + jsonb_array_length(jsonb_path_query_array(body, '$.labels.*[*]'))
                    + jsonb_array_length(jsonb_path_query_array(body, '$.tools[*]'))
                    + jsonb_array_length(jsonb_path_query_array(body, '$.add_labels[*]'))), 0)::float8 as values
  from (select body from rules where organization_id = ${organizationId}
        union all
        select body from label_rules where organization_id = ${organizationId}) as saved`

/** By the id of a person, the names of their groups that tool policies or overrides name; null without any. */
export const namedGroups = (organizationId: string): RawBuilder<Record<string, string[]> | null> => sql`(
  select json_object_agg(user_id, names) from (
    select m.user_id, json_agg(g.name) as names
    from groups g join group_members m on m.group_id = g.id
    where g.organization_id = ${organizationId} and g.name in (
      select role from tool_policies where organization_id = ${organizationId}
      union select role from role_policy_overrides where organization_id = ${organizationId})
    group by m.user_id) as named)`

/** Ids of people in a group with `default_agent_access: deny`. */
export const peopleWhoseAgentsNeedRule = (organizationId: string): RawBuilder<string[]> => sql`array(
  select distinct m.user_id from groups g join group_members m on m.group_id = g.id
  where g.organization_id = ${organizationId} and g.default_agent_access = 'deny')`

export const someAgentsNeedRule = (organizationId: string): RawBuilder<boolean> => sql`(
  exists (select from groups where organization_id = ${organizationId} and default_agent_access = 'deny')
  or exists (select from api_keys where organization_id = ${organizationId} and default_agent_access = 'deny'
             and revoked_at is null))`

/** The object's next version; returns its number. */
export const insertVersion = (
  row: Omit<PolicyVersionsTable, 'version' | 'body'> & { readonly body: string | null },
): RawBuilder<{ readonly version: number }> => sql`
  insert into policy_versions (organization_id, kind, object_id, version, change, body, restored_from, created_by, approved_by, created_at)
  select ${row.organization_id}, ${row.kind}, ${row.object_id}, coalesce(max(version), 0) + 1,
         ${row.change}, ${row.body}::jsonb, ${row.restored_from}::int, ${row.created_by}, ${row.approved_by}, ${row.created_at}::timestamptz
  from policy_versions
  where organization_id = ${row.organization_id} and kind = ${row.kind} and object_id = ${row.object_id}
  returning version`

/**
 * Leaves the newest `most` versions of the object, and of these as many as have `mostBytes` together; at least one. If it
 * may not grow, they have at most what the versions before the newest had.
 */
export const deleteOldVersions = (
  object: Pick<PolicyVersionsTable, 'organization_id' | 'kind' | 'object_id'>,
  {
    most,
    mostBytes,
    mayGrow,
  }: { readonly most: number; readonly mostBytes: number; readonly mayGrow: boolean },
): RawBuilder<unknown> => sql`
  delete from policy_versions v using (
    select version, row_number() over newest as place, sum(size) over newest as bytes,
           case when ${mayGrow} then ${mostBytes} else sum(size) over () - first_value(size) over newest end as most
    from (select version, coalesce(octet_length(body::text), 0) as size, organization_id, kind, object_id
          from policy_versions) as sized
    where organization_id = ${object.organization_id} and kind = ${object.kind} and object_id = ${object.object_id}
    window newest as (order by version desc)
  ) as counted
  where v.organization_id = ${object.organization_id} and v.kind = ${object.kind} and v.object_id = ${object.object_id}
    and v.version = counted.version and counted.place > 1
    and (counted.place > ${most} or counted.bytes > counted.most)`

/** All versions of deleted objects, but for the `most` that were deleted last. */
export const forgetDeletedObjects = (organizationId: string, most: number): RawBuilder<unknown> => sql`
  delete from policy_versions v using (
    select kind, object_id from policy_versions d
    where organization_id = ${organizationId} and change = 'deleted'
      and not exists (select from policy_versions n where n.organization_id = d.organization_id
                      and n.kind = d.kind and n.object_id = d.object_id and n.version > d.version)
    order by created_at desc offset ${most}
  ) as forgotten
  where v.organization_id = ${organizationId} and v.kind = forgotten.kind and v.object_id = forgotten.object_id`
