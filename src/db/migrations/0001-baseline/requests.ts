/** Requests to the API, and the processes that serve them. */
export const requests = `
-- Without a foreign key to the organization: a request that is only about the caller belongs to no organization
-- (src/api/idempotent.ts).
create table idempotency_keys (
  organization_id text not null,
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

-- Requests are leased in blocks, for each kind of request. A person who belongs to no organization has windows too, by
-- their own id, so there is no foreign key.
create table request_windows (
  organization_id text not null,
  bucket text not null check (bucket in ('requests_per_minute', 'requests_per_day', 'authorize_per_minute',
    'agent_reports_per_minute', 'quota_changes_per_minute')),
  started_at timestamptz not null,
  taken bigint not null check (taken >= 0),
  primary key (organization_id, bucket)
);

create table process_heartbeats (
  process_id text primary key,
  kind text not null,
  seen_at timestamptz not null default now()
);
`
