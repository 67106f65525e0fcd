/**
 * Runs, their steps and calls, and the tables that pass work between PostgreSQL and Temporal. Values are JSON text, so
 * that their bytes stay exact. A NUL character in a value is stored as `\u0000`.
 *
 * Sealed columns have the storage `external`, which does not compress. Compression would not make sealed bytes smaller.
 * Without it, PostgreSQL can read the header of a value without the rest.
 */
export const runs = `
create table runs (
  id text primary key,
  -- The order in which runs were accepted.
  position bigint not null generated always as identity,
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
  request_id text,
  idempotency_key text,
  inputs_sealed bytea storage external,
  input_labels jsonb not null default '{}',
  input_hash text not null,
  time_zone text not null,
  result_sealed bytea storage external,
  risk jsonb not null,
  -- The ids of its version's authors, because every call and every approval of the run needs them.
  authors text[] not null default '{}',
  changed_in_version integer,
  -- 'queued' waits and has no workflow yet, 'waits' has a workflow that waits, 'taken' may make calls. Taken slots are
  -- counted from these rows.
  slot text check (slot in ('queued', 'waits', 'taken')),
  cost numeric(18, 6) not null default 0 check (cost >= 0),
  event_seq integer not null default 0,
  decision_seq integer not null default 0,
  stored_bytes bigint not null default 0,
  nodes_executed integer not null default 0,
  nodes_failed integer not null default 0,
  cancel_requested_at timestamptz,
  cancel_requested_by text,
  cancel_reason text,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz,
  checked_at timestamptz,
  data_removed_at timestamptz,
  foreign key (workflow_id, workflow_version) references workflow_versions,
  constraint runs_that_ended_have_no_slot check (finished_at is null or slot is null)
);
create index runs_listing on runs (organization_id, id desc);
create index runs_by_time on runs (organization_id, created_at desc);
create index runs_by_workflow on runs (workflow_id, id desc);
-- Each start also asks whether the person has run the version before. The index answers this alone.
create unique index runs_idempotency on runs (workflow_id, requested_by, idempotency_key) include (workflow_version);
create index runs_open on runs (created_at) where finished_at is null;
create index runs_cancelling on runs (cancel_requested_at) where cancel_requested_at is not null and finished_at is null;
create index runs_slots on runs (organization_id, slot, position) where slot is not null;
create index runs_with_cost on runs (organization_id, created_at) include (cost) where cost > 0;
create index runs_with_old_data on runs (finished_at) where data_removed_at is null and finished_at is not null;

create table run_steps (
  run_id text not null references runs,
  step_id text not null,
  position integer not null,
  -- The name of the step's kind (src/steps). Only a step of the kind tool has a tool.
  kind text not null default 'tool',
  tool text,
  summary text,
  status text not null default 'pending' check (status in ('pending', 'running', 'held', 'completed', 'failed',
    'denied', 'rejected', 'expired', 'skipped', 'cancelled', 'unknown_outcome')),
  verdict text,
  attempts integer not null default 0,
  item_count integer,
  author_roles text[] not null default '{}',
  labels text[] not null default '{}',
  error jsonb,
  started_at timestamptz,
  finished_at timestamptz,
  primary key (run_id, step_id),
  check ((kind = 'tool') = (tool is not null))
);

-- One row for each run, step and item. item_index -1 stands for a step without for_each.
create table effects (
  run_id text not null references runs,
  step_id text not null,
  item_index integer not null default -1,
  organization_id text not null,
  -- Null: the step calls no tool, and this is the row of its wait.
  tool text,
  state text not null check (state in ('held', 'intent', 'sent', 'retry', 'unknown_outcome', 'completed', 'failed',
    'denied', 'rejected', 'expired', 'skipped', 'cancelled')),
  -- attempt counts decisions, also those that a worker did not use. bodies counts how often the tool's body began.
  attempt integer not null default 0,
  bodies integer not null default 0,
  -- Whether bodies already has the body of the present attempt.
  body_counted boolean not null default false,
  failures integer not null default 0,
  resolved_outcome text,
  wants_slot boolean not null default false,
  -- The time at which a step that waits goes on.
  until timestamptz,
  params_sealed bytea storage external,
  params_hash text,
  labels text[] not null default '{}',
  label_sources jsonb not null default '[]',
  decision_id text,
  approval_id text,
  output_sealed bytea storage external,
  output_labels text[] not null default '{}',
  error jsonb,
  -- Values that belong to the error, such as the recipients that a mail server refused.
  error_detail_sealed bytea,
  -- The outcomes of earlier attempts, for receipts.
  past_outcomes jsonb not null default '[]',
  intent_at timestamptz,
  sent_at timestamptz,
  -- The connection through which the call was sent, and its address. If the outcome is unknown, the service looks for
  -- the call or repeats it through no other connection.
  sent_with text,
  finished_at timestamptz,
  duration_ms integer,
  primary key (run_id, step_id, item_index)
);
create index effects_open on effects (run_id) where state in ('held', 'unknown_outcome', 'intent', 'sent', 'retry');
-- The runs that wait for a time are counted when another such run is accepted.
create index effects_until on effects (organization_id, run_id) where state = 'held' and until is not null;
-- For metrics (src/governance/upkeep/state-metrics.ts).
create index effects_unknown on effects (run_id) where state = 'unknown_outcome';
create index effects_unresolved on effects (organization_id, run_id, step_id, item_index)
  where state = 'unknown_outcome' and resolved_outcome is null;

-- How often a worker began to load the values of a call.
create table call_starts (
  run_id text not null references runs,
  step_id text not null,
  item_index integer not null,
  starts integer not null default 1,
  started_at timestamptz not null default clock_timestamp(),
  primary key (run_id, step_id, item_index)
);

create table run_events (
  run_id text not null references runs,
  seq integer not null,
  type text not null,
  at timestamptz not null,
  data jsonb not null default '{}',
  primary key (run_id, seq)
);

-- Errors that nobody foresaw, for each activity of a run. After so many of them, the run is given up. The table is
-- empty in ordinary times.
create table unexpected_errors (
  run_id text not null references runs,
  activity_id text not null,
  errors integer not null default 1,
  last_at timestamptz not null default now(),
  primary key (run_id, activity_id)
);

-- One row: the task queue of all organizations without a task queue of their own.
create table default_task_queue (
  single boolean primary key default true check (single),
  queue text not null
);
`
