/** The audit log: one chain of entries for each organization. */
export const audit = `
create table chain_head (
  organization_id text primary key references organizations,
  seq bigint not null default 0,
  hash text not null default repeat('0', 64),
  -- The code of the newest entry.
  mac text,
  policy_version bigint not null default 1,
  frozen text,
  -- The counters of storage.ts.
  stored_bytes bigint not null default 0,
  pending_approvals bigint not null default 0,
  -- When all rows were last counted anew.
  storage_counted_at timestamptz not null default now()
);

-- canonical has the bytes of an entry, and hash is computed from them. PostgreSQL generates the other columns from
-- canonical, so they cannot disagree with the hashed bytes. Entries are inserted under the lock of the chain, so checks
-- and generated columns must be cheap (docs/performance.md#turns-and-cheaper-appends):
--
-- - hash is checked without a regular expression.
-- - organization_id and seq are read with json, which finds a field without building the whole value. event_type is
--   read with jsonb, which refuses an entry that could not be listed later.
create table audit_events (
  canonical text not null,
  hash text not null check (length(hash) = 64 and encode(decode(hash, 'hex'), 'hex') = hash),
  -- Shows that the service has written the entry (src/governance/audit/entry-macs.ts). It may be null, because a null
  -- must be found and named, and not only refused.
  mac text,
  organization_id text not null generated always as (canonical::json ->> 'organization_id') stored,
  seq bigint not null generated always as ((canonical::json ->> 'seq')::bigint) stored,
  event_type text not null generated always as (canonical::jsonb ->> 'event_type') stored,
  id text generated always as (canonical::jsonb ->> 'id') virtual,
  timestamp text generated always as (canonical::jsonb ->> 'timestamp') virtual,
  actor jsonb generated always as (canonical::jsonb -> 'actor') virtual,
  user_id text generated always as (canonical::jsonb ->> 'user_id') virtual,
  workflow_id text generated always as (canonical::jsonb ->> 'workflow_id') virtual,
  run_id text generated always as (canonical::jsonb ->> 'run_id') virtual,
  ip_address text generated always as (canonical::jsonb ->> 'ip_address') virtual,
  action text generated always as (canonical::jsonb ->> 'action') virtual,
  status text generated always as (canonical::jsonb ->> 'status') virtual,
  duration_ms bigint generated always as ((canonical::jsonb ->> 'duration_ms')::bigint) virtual,
  metadata jsonb generated always as (canonical::jsonb -> 'metadata') virtual,
  prev_hash text generated always as (canonical::jsonb ->> 'prev_hash') virtual,
  primary key (organization_id, seq)
);
create index audit_events_type on audit_events (organization_id, event_type, seq desc);
-- For the log of one person (docs/decisions/0067). A query with the expression event_type || '' cannot use the index by
-- event type, so PostgreSQL chooses this one (src/governance/audit/list.ts).
create index audit_events_person on audit_events
  (organization_id, (canonical::jsonb ->> 'user_id'), seq desc, (event_type || ''));

-- The application's role may only select and insert (grants.ts). These triggers refuse updates and deletes of every
-- role. "Enable always" makes them run even during replication.
create function audit_events_are_final() returns trigger language plpgsql as $$
begin
  raise exception 'audit_events is append-only: % is refused', tg_op using errcode = 'insufficient_privilege';
end $$;
create trigger audit_events_no_edit before update or delete on audit_events
  for each row execute function audit_events_are_final();
create trigger audit_events_no_truncate before truncate on audit_events
  for each statement execute function audit_events_are_final();
alter table audit_events enable always trigger audit_events_no_edit;
alter table audit_events enable always trigger audit_events_no_truncate;

-- How many entries of each kind a complete segment of a chain has. Lists and reports use these numbers, so they need
-- not count a whole chain. '' means any event type, any person or any status. Only decisions are also counted by
-- status. All rows of a segment are inserted together. So if a segment has the row with '' in all three columns, it has
-- all its rows.
create table audit_counts (
  organization_id text not null references organizations,
  event_type text not null,
  user_id text not null,
  status text not null,
  segment bigint not null,
  entries integer not null,
  primary key (organization_id, event_type, user_id, status, segment) include (entries)
);

-- The folders outside the database that have had a checkpoint of an organization's audit log. A row stays until an
-- operator accepts that the folder has lost the checkpoint.
create table checkpoint_folders (
  organization_id text not null references organizations,
  folder_id text not null,
  since timestamptz not null default now(),
  primary key (organization_id, folder_id)
);
`
