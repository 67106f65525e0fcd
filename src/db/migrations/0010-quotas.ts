/**
 * Quotas. `runs.slot` says whether a run has a slot. The taken slots are counted from the rows of `runs`. Requests are
 * leased in blocks. In `request_windows`, each organization has one row for each kind of request. A trigger counts the
 * bytes of `memory` in the transaction that writes these bytes.
 */
export const quotas = `
alter table organizations add column quota_overrides jsonb not null default '{}';

-- slot: 'queued' waits and has no workflow yet, 'waits' has a workflow that waits, 'taken' may act (quotas/slots.ts).
alter table runs
  add column position bigint not null generated always as identity,
  add column slot text check (slot in ('queued', 'waits', 'taken')),
  add column cost numeric(18, 6) not null default 0 check (cost >= 0);
update runs set slot = 'taken' where finished_at is null and status in ('queued', 'running', 'paused');
alter table runs add constraint runs_that_ended_have_no_slot check (finished_at is null or slot is null);
create index runs_by_time on runs (organization_id, created_at desc);
create index runs_slots on runs (organization_id, slot, position) where slot is not null;
create index runs_with_cost on runs (organization_id, created_at) include (cost) where cost > 0;

alter table effects add column wants_slot boolean not null default false;
drop index effects_waiting;
create index effects_open on effects (run_id) where state in ('held', 'unknown_outcome', 'intent', 'sent', 'retry');

create table request_windows (
  organization_id text not null references organizations,
  bucket text not null check (bucket in ('requests_per_minute', 'requests_per_day', 'authorize_per_minute')),
  started_at timestamptz not null,
  taken bigint not null check (taken >= 0),
  primary key (organization_id, bucket)
);

create table memory_usage (
  organization_id text primary key references organizations,
  bytes bigint not null
);
insert into memory_usage
  select organization_id, sum(octet_length(key) + octet_length(value)) from memory group by organization_id;

create function memory_is_counted() returns trigger language plpgsql as $$
declare
  moved bigint := 0;
begin
  if tg_op <> 'DELETE' then moved := moved + octet_length(new.key) + octet_length(new.value); end if;
  if tg_op <> 'INSERT' then moved := moved - octet_length(old.key) - octet_length(old.value); end if;
  insert into memory_usage as u (organization_id, bytes)
    values (case when tg_op = 'DELETE' then old.organization_id else new.organization_id end, moved)
    on conflict (organization_id) do update set bytes = u.bytes + moved;
  return null;
end $$;
create trigger memory_is_counted after insert or update or delete on memory
  for each row execute function memory_is_counted();
`
