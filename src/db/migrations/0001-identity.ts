/** Tables for organizations, people and API keys. */
export const identity = `
create table organizations (
  id text primary key,
  name text not null,
  personal boolean not null default false,
  plan text not null default 'free' check (plan in ('free', 'pro', 'enterprise')),
  settings jsonb not null default '{}',
  created_at timestamptz not null default now()
);

create table users (
  id text primary key,
  email text not null,
  name text not null default '',
  password_hash text,
  created_at timestamptz not null default now()
);
create unique index users_email on users (lower(email));

-- Leaving an organization deletes the row: absence is the one way not to be a member.
create table memberships (
  organization_id text not null references organizations,
  user_id text not null references users,
  role text not null check (role in ('viewer', 'member', 'admin', 'owner')),
  created_at timestamptz not null default now(),
  primary key (organization_id, user_id)
);

create table api_keys (
  id text primary key,
  organization_id text not null references organizations,
  user_id text not null references users,
  name text not null,
  hash text not null unique,
  last4 text not null,
  scopes text[] not null,
  created_at timestamptz not null default now(),
  created_by text references users,
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);
create index api_keys_listing on api_keys (organization_id, id desc);
`
