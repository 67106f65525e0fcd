/** Groups of members, who can decide approvals without being admins. */
export const groups = `
create table groups (
  id text primary key,
  organization_id text not null references organizations,
  name text not null check (name ~ '^[a-z][a-z0-9_-]{0,63}$'),
  description text not null default '',
  created_by text not null references users,
  created_at timestamptz not null,
  constraint groups_name unique (organization_id, name)
);
create index groups_listing on groups (organization_id, id desc);

-- A person who leaves the organization leaves its groups.
create table group_members (
  group_id text not null references groups on delete cascade,
  organization_id text not null,
  user_id text not null,
  added_by text not null references users,
  added_at timestamptz not null,
  primary key (group_id, user_id),
  foreign key (organization_id, user_id) references memberships (organization_id, user_id) on delete cascade
);
create index group_members_of_person on group_members (organization_id, user_id);
`
