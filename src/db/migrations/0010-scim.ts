/** Provisioning by the directory of a company (SCIM 2.0). */
export const scim = `
create table scim_tokens (
  id text primary key,
  organization_id text not null references organizations,
  name text not null,
  hash text not null unique,
  created_by text not null references users,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  last_used_at timestamptz
);
create index scim_tokens_listing on scim_tokens (organization_id, id desc);
comment on table scim_tokens is 'Tokens with which the directory of an organization adds and removes its people.';

-- The directory sees a person whom it has removed as inactive, until it deletes them.
create table scim_users (
  organization_id text not null references organizations,
  user_id text not null references users,
  external_id text,
  created_at timestamptz not null,
  primary key (organization_id, user_id)
);
create unique index scim_users_external on scim_users (organization_id, external_id) where external_id is not null;
comment on table scim_users is 'People whom the directory of an organization manages.';
`
