/**
 * The audit chain. `canonical` contains the bytes of an entry from which `hash` is computed. PostgreSQL generates all
 * other columns from `canonical`. So these columns cannot disagree with the hashed bytes. The application's role may
 * only select and insert (see grants.ts). Triggers refuse updates and deletes of every role. ENABLE ALWAYS makes the
 * triggers run even during replication.
 */
export const audit = `
create table chain_head (
  organization_id text primary key references organizations,
  seq bigint not null default 0,
  hash text not null default repeat('0', 64),
  policy_version bigint not null default 1,
  frozen text
);

create table audit_events (
  canonical text not null,
  hash text not null check (hash ~ '^[0-9a-f]{64}$'),
  organization_id text not null generated always as (canonical::jsonb ->> 'organization_id') stored,
  seq bigint not null generated always as ((canonical::jsonb ->> 'seq')::bigint) stored,
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
`
