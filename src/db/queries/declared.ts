import { sql, type RawBuilder } from 'kysely'

interface More {
  /** Whether the directory of a company manages it. */
  readonly directory: boolean
  /** The present version of a workflow; null for all else. */
  readonly version: number | null
}

/** What files can declare, in the form of files; `settings` is the name of the organization's settings. */
export const presentObjects = <Row>(organizationId: string, settings: string): RawBuilder<Row & More> => {
  const org = sql`organization_id = ${organizationId}`
  return sql`
    select 'rule' as kind, name, id, body, managed_by as managed, false as directory, null::int as version
    from rules where ${org}
    union all
    select 'label_rule', name, id, body, managed_by, false, null from label_rules where ${org}
    union all
    select 'group', name, g.id, jsonb_build_object('description', description, 'members', (
        select coalesce(jsonb_agg(u.email order by u.email), '[]') from group_members m join users u on u.id = m.user_id
        where m.group_id = g.id)),
      managed_by, exists (select from scim_groups s where s.group_id = g.id), null from groups g where ${org}
    union all
    select 'tool_policy', case role when '' then tool_name else tool_name || '/' || role end, null,
      jsonb_build_object('allowed', allowed, 'restrictions', restrictions), managed_by, false, null
    from tool_policies where ${org}
    union all
    select 'role_override', tool_name || '/' || role, null, jsonb_build_object('allowed', allowed), managed_by, false, null
    from role_policy_overrides where ${org}
    union all
    select 'workflow', slug, w.id, jsonb_build_object('name', name, 'description', description,
        'protected', protected, 'digest', v.digest), managed_by, false, current_version
    from workflows w join workflow_versions v on v.workflow_id = w.id and v.version = w.current_version
    where ${org} and slug is not null and deleted_at is null and poll_of is null
    union all
    select 'organization', ${settings}, id, settings, managed_by, false, null
    from organizations where id = ${organizationId}`
}

/** It differs if a workflow, or who is in a group, has changed. */
export const declaredFingerprint = (organizationId: string): RawBuilder<{ readonly mark: string }> => sql`
  select concat_ws(' ',
    (select md5(string_agg(concat_ws(',', id, current_version, updated_at, managed_by), ';' order by id))
     from workflows where organization_id = ${organizationId} and deleted_at is null),
    (select md5(string_agg(group_id || user_id, ';' order by group_id, user_id))
     from group_members where organization_id = ${organizationId})) as mark`
