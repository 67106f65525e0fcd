import { countRows, recountFunction, type CountedTable } from './count-rows.ts'
import { countedTables } from './0001-baseline/storage.ts'

export const countedVersions: CountedTable = {
  name: 'policy_versions',
  bytes: '512 + octet_length(t.object_id) + coalesce(octet_length(t.body::text), 0)',
}

/** Versions of rules, label rules and tool policies. What exists already becomes version 1. */
export const policyVersions = `
create table policy_versions (
  organization_id text not null references organizations,
  kind text not null check (kind in ('rule', 'label_rule', 'tool_policy')),
  -- The id of the rule; of a tool policy, its role (or '') and its tool: 'member/mail_send'.
  object_id text not null,
  version integer not null check (version > 0),
  change text not null check (change in ('created', 'updated', 'deleted')),
  -- What the change left. Null after a deletion.
  body jsonb,
  -- The version whose body was taken again.
  restored_from integer,
  created_by text not null references users,
  created_at timestamptz not null default now(),
  primary key (organization_id, kind, object_id, version)
);
comment on table policy_versions is 'what each change of a rule, label rule or tool policy left';
create index policy_versions_deleted on policy_versions (organization_id, created_at) where change = 'deleted';

${countRows(countedVersions)}
${recountFunction([...countedTables, countedVersions])}

insert into policy_versions (organization_id, kind, object_id, version, change, body, created_by, created_at)
  select organization_id, 'rule', id, 1, 'created', body, created_by, updated_at from rules
  union all
  select organization_id, 'label_rule', id, 1, 'created', body, created_by, updated_at from label_rules
  union all
  select organization_id, 'tool_policy', role || '/' || tool_name, 1, 'created',
         jsonb_build_object('allowed', allowed, 'restrictions', restrictions), created_by, updated_at from tool_policies;
`
