import { countRows, recountFunction, type CountedTable } from '../count-rows.ts'

const labels = (column: string): string => `coalesce(octet_length(array_to_string(t.${column}, ' ')), 0)`

/**
 * Triggers count the rows of these tables. The list has all tables that an organization can make grow, except those
 * that `recountFunction` names. `bytes` is the size of the values before compression, plus a fixed number for the row
 * and its indexes. A sealed value counts as many bytes as its plain text.
 */
export const countedTables: readonly CountedTable[] = [
  {
    name: 'effects',
    bytes: `512 + coalesce(octet_length(t.params_sealed), 0) + value_bytes(t.output_sealed)
      + octet_length(t.label_sources::text) + coalesce(octet_length(t.error::text), 0)
      + ${labels('labels')} + ${labels('output_labels')}
      + coalesce(octet_length(t.error_detail_sealed), 0) + octet_length(t.past_outcomes::text) - octet_length('[]')`,
    ofOrganization: 'join runs o on o.id = t.run_id',
  },
  {
    name: 'approvals',
    bytes: `1024 + coalesce(octet_length(t.params_sealed), 0) + octet_length(t.risk::text) + ${labels('labels')}
      + coalesce(octet_length(t.state_sealed), 0) + coalesce(octet_length(t.held_again), 0)
      + octet_length(t.authors::text)`,
    pending: `(t.status = 'pending')::int`,
  },
  {
    name: 'approval_votes',
    bytes: '256 + octet_length(t.comment)',
    join: 'join approvals o on o.id = t.approval_id',
  },
  {
    name: 'runs',
    bytes: `1024 + value_bytes(t.inputs_sealed) + octet_length(t.input_labels::text)
      + value_bytes(t.result_sealed) + octet_length(t.risk::text)
      + coalesce(octet_length(t.cancel_reason), 0) + octet_length(t.authors::text)`,
  },
  {
    name: 'run_steps',
    bytes: `256 + coalesce(octet_length(t.error::text), 0) + ${labels('labels')}
      + coalesce(octet_length(t.summary), 0)`,
    join: 'join runs o on o.id = t.run_id',
  },
  {
    name: 'run_events',
    bytes: '128 + octet_length(t.data::text)',
    join: 'join runs o on o.id = t.run_id',
  },
  { name: 'memory', bytes: '256 + memory_bytes(t.key, t.value_sealed, t.labels)' },
  {
    name: 'files',
    bytes: `1024 + octet_length(t.name) + octet_length(t.media_type) + octet_length(t.sha256)
      + octet_length(array_to_string(t.labels, ' ')) + octet_length(t.text_sealed)
      + coalesce(octet_length(t.rows_sealed), 0)`,
  },
  { name: 'rules', bytes: '512 + octet_length(t.body::text)' },
  { name: 'label_rules', bytes: '512 + octet_length(t.body::text)' },
  { name: 'tool_policies', bytes: '512 + octet_length(t.tool_name) + octet_length(t.restrictions::text)' },
  { name: 'role_policy_overrides', bytes: '512 + octet_length(t.tool_name) + octet_length(t.role)' },
  { name: 'workflows', bytes: '512 + octet_length(t.name) + octet_length(t.description)' },
  {
    name: 'workflow_versions',
    bytes: `512 + octet_length(t.definition) + octet_length(t.message)
      + octet_length(t.authors::text) + octet_length(t.step_authors::text)`,
    join: 'join workflows o on o.id = t.workflow_id',
  },
  {
    name: 'registry_entries',
    bytes: `512 + octet_length(t.template_name) + octet_length(t.description) + octet_length(t.tags::text)
      + coalesce(octet_length(t.reason), 0)`,
  },
  { name: 'invitations', bytes: '1024' },
  { name: 'api_keys', bytes: '512 + octet_length(t.name) + octet_length(t.scopes::text)' },
  {
    name: 'idempotency_keys',
    bytes: '512 + coalesce(octet_length(t.response_body), 0) + coalesce(octet_length(t.made), 0)',
  },
  {
    name: 'connections',
    bytes: `1024 + octet_length(t.name) + coalesce(octet_length(t.account), 0)
      + coalesce(octet_length(t.credential_sealed), 0)`,
  },
  {
    name: 'webhooks',
    bytes: `1024 + octet_length(t.target_sealed) + octet_length(t.host)
      + octet_length(array_to_string(t.events, ' ')) + coalesce(octet_length(t.disabled_reason), 0)`,
  },
  {
    name: 'webhook_events',
    bytes: `512 + octet_length(t.data::text) + octet_length(array_to_string(t.webhook_ids, ' '))
      + coalesce(octet_length(t.message), 0)`,
  },
  // This fixed number of bytes covers the text of an error, so that a delivery attempt changes no counter.
  { name: 'webhook_deliveries', bytes: '1024' },
]

/**
 * The stored bytes and the pending approvals of each organization (docs/decisions/0074). The counters are in
 * `chain_head`. A transaction that has locked an organization's row of `chain_head` updates the counters directly. Some
 * other transactions, such as retention and answers of idempotent requests, must not wait for this row, and must not
 * lock it after other rows. These transactions insert a row into `storage_moves`. Housekeeping adds these rows to the
 * counters.
 */
export const storage = `
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

${countedTables.map(countRows).join('\n')}

-- What the counters of an organization must be.
${recountFunction(countedTables)}
`
