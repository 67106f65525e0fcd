/**
 * Tables for workflows, frozen versions, runs, effects, decisions and approvals. Inputs, outputs and definitions are
 * stored as JSON text. So their bytes stay exact. A NUL character in a value is stored as `\u0000`.
 */
export const runs = `
create table workflows (
  id text primary key,
  organization_id text not null references organizations,
  name text not null,
  description text not null default '',
  current_version integer not null,
  created_by text not null references users,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index workflows_listing on workflows (organization_id, id desc) where deleted_at is null;

create table workflow_versions (
  workflow_id text not null references workflows,
  version integer not null,
  definition text not null,
  digest text not null,
  message text not null default '',
  deployed_by text not null references users,
  deployed_at timestamptz not null default now(),
  primary key (workflow_id, version)
);

create table runs (
  id text primary key,
  organization_id text not null references organizations,
  workflow_id text not null references workflows,
  workflow_version integer not null,
  interpreter_version integer not null,
  status text not null check (status in ('queued', 'awaiting_approval', 'running', 'paused', 'completed', 'failed',
    'denied', 'rejected', 'expired', 'cancelled')),
  status_reason text not null,
  requested_by text not null references users,
  requester_email text not null,
  api_key_id text,
  idempotency_key text,
  inputs text not null,
  input_hash text not null,
  time_zone text not null,
  result text,
  risk jsonb not null,
  event_seq integer not null default 0,
  decision_seq integer not null default 0,
  stored_bytes bigint not null default 0,
  nodes_executed integer not null default 0,
  nodes_failed integer not null default 0,
  cancel_requested_at timestamptz,
  cancel_requested_by text,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  checked_at timestamptz,
  foreign key (workflow_id, workflow_version) references workflow_versions
);
create index runs_listing on runs (organization_id, id desc);
create index runs_by_workflow on runs (workflow_id, id desc);
create unique index runs_idempotency on runs (workflow_id, requested_by, idempotency_key);
create index runs_open on runs (created_at) where finished_at is null;

create table run_steps (
  run_id text not null references runs,
  step_id text not null,
  position integer not null,
  tool text not null,
  status text not null default 'pending' check (status in ('pending', 'running', 'held', 'completed', 'failed',
    'denied', 'rejected', 'expired', 'skipped', 'cancelled', 'unknown_outcome')),
  verdict text,
  attempts integer not null default 0,
  item_count integer,
  labels text[] not null default '{}',
  error jsonb,
  started_at timestamptz,
  finished_at timestamptz,
  primary key (run_id, step_id)
);

-- One row per (run, step, item); item_index -1 stands for a step without for_each. States: governance/effect.ts.
create table effects (
  run_id text not null references runs,
  step_id text not null,
  item_index integer not null default -1,
  organization_id text not null,
  tool text not null,
  state text not null check (state in ('held', 'intent', 'sent', 'retry', 'unknown_outcome', 'completed', 'failed',
    'denied', 'rejected', 'expired', 'skipped', 'cancelled')),
  attempt integer not null default 0,
  failures integer not null default 0,
  resolved_outcome text,
  params_sealed bytea,
  params_hash text,
  labels text[] not null default '{}',
  label_sources jsonb not null default '[]',
  decision_id text,
  approval_id text,
  output text,
  output_labels text[] not null default '{}',
  error jsonb,
  intent_at timestamptz,
  sent_at timestamptz,
  finished_at timestamptz,
  duration_ms integer,
  primary key (run_id, step_id, item_index)
);
create index effects_waiting on effects (run_id) where state in ('held', 'unknown_outcome');

create table decisions (
  id text primary key,
  organization_id text not null references organizations,
  run_id text,
  seq integer,
  step_id text,
  item_index integer,
  attempt integer not null default 0,
  tool text not null,
  side_effect text not null,
  verdict text not null,
  rule_id text,
  rule_name text,
  matched_rules jsonb not null,
  reason text not null,
  explanation text not null,
  labels text[] not null,
  label_sources jsonb not null,
  params_hash text,
  approval_id text,
  policy_version bigint not null,
  decided_at timestamptz not null
);
create index decisions_of_run on decisions (run_id, seq);

create table approvals (
  id text primary key,
  organization_id text not null references organizations,
  kind text not null check (kind in ('step', 'run', 'agent_call')),
  status text not null check (status in ('pending', 'approved', 'rejected', 'cancelled', 'expired')),
  run_id text,
  step_id text,
  item_index integer,
  session_id text,
  workflow_id text,
  tool text,
  side_effect text,
  params_sealed bytea,
  params_hash text,
  rule_id text,
  rule_name text,
  labels text[] not null,
  risk jsonb not null,
  requested_by text not null references users,
  approver text not null check (approver in ('admin', 'owner')),
  approvals_needed integer not null check (approvals_needed >= 1),
  created_at timestamptz not null,
  expires_at timestamptz,
  decided_at timestamptz,
  used_at timestamptz,
  used_by text,
  superseded_by text
);
create index approvals_listing on approvals (organization_id, id desc);
create index approvals_of_run on approvals (run_id) where run_id is not null;
create index approvals_expiring on approvals (expires_at) where status = 'pending' and expires_at is not null;

create table approval_votes (
  approval_id text not null references approvals,
  user_id text not null references users,
  decision text not null check (decision in ('approve', 'reject')),
  comment text not null default '',
  at timestamptz not null,
  primary key (approval_id, user_id)
);

create table run_events (
  run_id text not null references runs,
  seq integer not null,
  type text not null,
  at timestamptz not null,
  data jsonb not null default '{}',
  primary key (run_id, seq)
);
`
