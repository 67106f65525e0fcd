/** Rules, and what tools and roles may do. */
export const policy = `
-- position is the order in which rules were created. Among equally strict rules, the first one decides.
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

create table tool_policies (
  organization_id text not null references organizations,
  tool_name text not null,
  -- '' means the whole organization.
  role text not null check (role in ('', 'viewer', 'member', 'admin', 'owner')),
  allowed boolean,
  restrictions jsonb not null default '{}',
  created_by text not null references users,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (organization_id, tool_name, role)
);

-- A row allows or blocks one tool for one role. The role is not checked, because it may be a name that no member has.
create table role_policy_overrides (
  organization_id text not null references organizations,
  tool_name text not null,
  role text not null,
  allowed boolean not null,
  created_by text not null references users,
  created_at timestamptz not null default now(),
  primary key (organization_id, tool_name, role)
);
`
