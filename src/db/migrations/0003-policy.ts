/**
 * `position` is the order in which rules were created. Among equally strict rules, the rule that was created first
 * decides.
 */
export const policy = `
create table rules (
  id text primary key,
  position bigint not null generated always as identity,
  organization_id text not null references organizations,
  name text not null,
  body jsonb not null,
  created_by text not null references users,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint rules_name unique (organization_id, name)
);
create index rules_listing on rules (organization_id, position);

create table label_rules (
  id text primary key,
  position bigint not null generated always as identity,
  organization_id text not null references organizations,
  name text not null,
  body jsonb not null,
  created_by text not null references users,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint label_rules_name unique (organization_id, name)
);
create index label_rules_listing on label_rules (organization_id, position);
`
