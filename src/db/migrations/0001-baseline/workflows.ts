/** Workflows, their frozen versions, and templates. */
export const workflows = `
create table workflows (
  id text primary key,
  organization_id text not null references organizations,
  name text not null,
  description text not null default '',
  current_version integer not null,
  protected boolean not null default false,
  created_by text not null references users,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index workflows_listing on workflows (organization_id, id desc) where deleted_at is null;

create table workflow_versions (
  workflow_id text not null references workflows,
  version integer not null,
  -- JSON text and not jsonb, so that the bytes stay exact.
  definition text not null,
  digest text not null,
  message text not null default '',
  -- The people who wrote the version, with the role that each of them had when they saved their text.
  authors jsonb not null,
  step_authors jsonb not null,
  deployed_by text not null references users,
  deployed_at timestamptz not null default now(),
  rolled_back_from integer,
  rolled_back_to integer,
  primary key (workflow_id, version),
  check ((rolled_back_from is null) = (rolled_back_to is null))
);

-- A row for each workflow that was ever approved as a template. The state moves only forward.
create table registry_entries (
  workflow_id text primary key references workflows,
  -- The order of approval.
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
`
