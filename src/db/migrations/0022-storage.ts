import { countRows, recountOf, type CountedTable } from './count-rows.ts'

/**
 * Triggers count the rows of these tables. The list has all tables that an organization can make grow, except the
 * tables of `countedByWriter`. `bytes` is the size of the values before compression, plus a fixed number for the row
 * and its indexes.
 */
export const counted: readonly CountedTable[] = [
  {
    name: 'effects',
    bytes: `512 + coalesce(octet_length(t.params_sealed), 0) + coalesce(octet_length(t.output), 0)
      + octet_length(t.label_sources::text) + coalesce(octet_length(t.error::text), 0)`,
    ofOrganization: 'join runs o on o.id = t.run_id',
  },
  {
    name: 'approvals',
    bytes: `1024 + coalesce(octet_length(t.params_sealed), 0) + octet_length(t.risk::text)`,
    pending: `(t.status = 'pending')::int`,
  },
  {
    name: 'approval_votes',
    bytes: '256 + octet_length(t.comment)',
    join: 'join approvals o on o.id = t.approval_id',
  },
  {
    name: 'runs',
    bytes: `1024 + octet_length(t.inputs) + octet_length(t.input_labels::text) + coalesce(octet_length(t.result), 0) + octet_length(t.risk::text)`,
  },
  {
    name: 'run_steps',
    bytes: '256 + coalesce(octet_length(t.error::text), 0)',
    join: 'join runs o on o.id = t.run_id',
  },
  {
    name: 'run_events',
    bytes: '128 + octet_length(t.data::text)',
    join: 'join runs o on o.id = t.run_id',
  },
  { name: 'memory', bytes: '256 + memory_bytes(t.key, t.value, t.labels)' },
  { name: 'rules', bytes: '512 + octet_length(t.body::text)' },
  { name: 'label_rules', bytes: '512 + octet_length(t.body::text)' },
  { name: 'workflows', bytes: '512 + octet_length(t.name) + octet_length(t.description)' },
  {
    name: 'workflow_versions',
    bytes: '512 + octet_length(t.definition) + octet_length(t.message)',
    join: 'join workflows o on o.id = t.workflow_id',
  },
  {
    name: 'registry_entries',
    bytes: `512 + octet_length(t.template_name) + octet_length(t.description) + octet_length(t.tags::text)
      + coalesce(octet_length(t.reason), 0)`,
  },
  { name: 'tool_policies', bytes: '512 + octet_length(t.tool_name) + octet_length(t.restrictions::text)' },
  { name: 'invitations', bytes: '1024' },
  { name: 'api_keys', bytes: '512 + octet_length(t.name) + octet_length(t.scopes::text)' },
  {
    name: 'idempotency_keys',
    bytes: '512 + coalesce(octet_length(t.response_body), 0) + coalesce(octet_length(t.made), 0)',
  },
]

/**
 * Returns SQL that counts the tables without a trigger. The rows of these tables are inserted many times a second. So
 * the transaction that inserts rows also counts them, in an update of `chain_head` that it makes anyway. The bytes of a
 * decision include what is stored later about its call.
 */
const countedByWriter = (sessionBytes: string): string => `
  select coalesce(sum(octet_length(canonical) + 192), 0) as bytes, 0 as pending
    from audit_events where organization_id = organization
  union all
  select coalesce(sum(coalesce(d.bytes, 768 + octet_length(d.explanation) + octet_length(d.matched_rules::text)
                                        + octet_length(d.label_sources::text))), 0), 0
    from decisions d where d.run_id in (select id from runs where organization_id = organization
                                        union all
                                        select run_id from agent_sessions where organization_id = organization)
  union all
  select ${sessionBytes}, 0 from agent_sessions where organization_id = organization`

/**
 * Returns the SQL that defines the function `recount_storage`, without the word `create`. `sessionBytes` is SQL for the
 * bytes of all agent sessions of the organization.
 */
export function recountFunction(tables: readonly CountedTable[], sessionBytes = 'count(*) * 2048'): string {
  return `function recount_storage(organization text, out bytes bigint, out pending bigint)
language sql stable as $$
  select sum(s.bytes)::bigint, sum(s.pending)::bigint from (
  ${[countedByWriter(sessionBytes), ...tables.map(recountOf)].join('\n  union all\n')}
  ) as s
$$;`
}

/**
 * Counts the stored bytes and the pending approvals of each organization (docs/decisions/0074). The counters are in
 * `chain_head`. A transaction that has locked an organization's row of `chain_head` updates the counters directly. Some
 * other transactions, such as retention and answers of idempotent requests, must not wait for this row, and must not
 * lock it after other rows. These transactions insert a row into `storage_moves`. Housekeeping adds these rows to the
 * counters.
 */
export const storage = `
alter table chain_head
  add column stored_bytes bigint not null default 0,
  add column pending_approvals bigint not null default 0,
  -- When all rows were last counted anew.
  add column storage_counted_at timestamptz not null default now();
-- Of its JSON as it was written; null for those made before.
alter table decisions add column bytes integer;

create table storage_moves (
  id bigint primary key generated always as identity,
  organization_id text not null,
  bytes bigint not null,
  pending bigint not null
);
create index storage_moves_of_organization on storage_moves (organization_id);

create function storage_moved(organization text, moved_bytes bigint, moved_pending bigint)
returns void language plpgsql as $$
begin
  if moved_bytes = 0 and moved_pending = 0 or organization = '' then return; end if;
  if organization = current_setting('countersign.organization', true) then
    update chain_head
      set stored_bytes = stored_bytes + moved_bytes, pending_approvals = pending_approvals + moved_pending
      where organization_id = organization;
  else
    insert into storage_moves (organization_id, bytes, pending)
      values (organization, moved_bytes, moved_pending);
  end if;
end $$;

${counted.map(countRows).join('\n')}

-- What the counters of an organization must be.
create ${recountFunction(counted)}

update chain_head h
  set (stored_bytes, pending_approvals) = (select bytes, pending from recount_storage(h.organization_id));
`
