/**
 * Templates. Each workflow that was ever approved as a template has one row in `registry_entries`. The state of a
 * template moves only forward: `active`, `deprecated`, `archived`. Checks keep the other columns consistent with the
 * state. A workflow version that a rollback created records this rollback.
 */
export const registry = `
create table registry_entries (
  workflow_id text primary key references workflows,
  -- Order of approval.
  place integer not null generated always as identity,
  organization_id text not null references organizations,
  state text not null default 'active' check (state in ('active', 'deprecated', 'archived')),
  template_name text not null,
  description text not null,
  tags text[] not null,
  version integer not null,
  approved_by text not null references users,
  approved_at timestamptz not null,
  deprecated_by text references users,
  deprecated_at timestamptz,
  reason text,
  replacement_id text references workflows,
  archived_by text references users,
  archived_at timestamptz,
  foreign key (workflow_id, version) references workflow_versions,
  check ((state = 'active') = (deprecated_at is null)),
  check ((deprecated_at is null) = (reason is null)),
  check ((state = 'archived') = (archived_at is not null))
);
create index registry_entries_listing on registry_entries (organization_id, place desc);

alter table workflow_versions
  add column rolled_back_from integer,
  add column rolled_back_to integer,
  add check ((rolled_back_from is null) = (rolled_back_to is null));
`
