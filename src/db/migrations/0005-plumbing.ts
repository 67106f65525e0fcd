/** Tables that pass work between PostgreSQL and Temporal, and between processes. */
export const plumbing = `
create table outbox (
  id bigint primary key generated always as identity,
  kind text not null check (kind in ('run.start', 'run.wake', 'run.cancel')),
  run_id text not null references runs,
  payload jsonb not null default '{}',
  created_at timestamptz not null default now(),
  attempts integer not null default 0,
  next_attempt_at timestamptz not null default now(),
  last_error text
);
create index outbox_due on outbox (next_attempt_at);

create table idempotency_keys (
  organization_id text not null references organizations,
  user_id text not null,
  api_key_id text not null,
  route text not null,
  key text not null,
  body_hash text not null,
  locked_until timestamptz,
  response_status integer,
  response_body text,
  acted boolean not null default false,
  made text,
  created_at timestamptz not null default now(),
  primary key (organization_id, user_id, api_key_id, route, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);

-- Errors that nobody foresaw, per activity of a run: after so many of them it is given up. Empty in ordinary times.
create table unexpected_errors (
  run_id text not null references runs,
  activity_id text not null,
  errors integer not null default 1,
  last_at timestamptz not null default now(),
  primary key (run_id, activity_id)
);

create table process_heartbeats (
  process_id text primary key,
  kind text not null,
  seen_at timestamptz not null default now()
);

create table memory (
  organization_id text not null references organizations,
  key text not null,
  value text not null,
  labels text[] not null default '{}',
  updated_at timestamptz not null default now(),
  updated_by text not null references users,
  primary key (organization_id, key)
);

-- One row: a known text, sealed with the installation's key, so that a process with another key notices.
create table installation (
  singleton boolean primary key default true check (singleton),
  key_probe bytea not null
);
`
