/** Connections of organizations and people to outside services. */
export const connections = `
-- For each integration, an organization can have one connection that is not revoked, and so can each of its people. A
-- revoked connection loses its credential. Its row stays, because lists show it.
create table connections (
  id text primary key,
  organization_id text not null references organizations,
  integration text not null,
  -- The person of a personal connection; null for the organization's.
  owner_id text references users,
  name text not null,
  -- The service's name for the account; null if it gives none.
  account text,
  -- The host to which calls go, with the port if it is not the default. The address itself is in the credential.
  destination text not null,
  -- Whether the host is the vendor's, or one that the operator has set for the service.
  own_host boolean not null,
  -- Tools for which the authorization server did not grant a right in its last answer. Lists and plans show them
  -- without reading the credential.
  lacking text[] not null default '{}',
  status text not null default 'active' check (status in ('active', 'expired', 'revoked')),
  -- Where the credential is.
  backend text not null check (backend in ('db', 'aws_secrets_manager')),
  credential_sealed bytea storage external,
  -- The version of the credential. In another backend than 'db', null means the newest.
  secret_version text,
  -- Counts the credentials of this connection: a refresh replaces exactly the one that it has read.
  generation integer not null default 1,
  -- Until when the kept access token may be used; null: there is none.
  access_fresh_until timestamptz,
  -- Until when one process alone may ask for a new access token.
  refreshing_until timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null references users,
  last_used_at timestamptz,
  revoked_at timestamptz,
  check ((status = 'revoked') = (revoked_at is not null)),
  check (credential_sealed is null or (backend = 'db' and status <> 'revoked'))
);
create unique index connections_live on connections (organization_id, integration, coalesce(owner_id, ''))
  where status <> 'revoked';
create index connections_by_organization on connections (organization_id, id);
create index connections_revoked on connections (revoked_at) where revoked_at is not null;

-- Authorizations in a browser that have begun and have no answer yet. A row has only a hash of the OAuth state. So
-- somebody who has a copy of the table cannot send a valid answer.
create table connection_attempts (
  state_hash text primary key,
  organization_id text not null references organizations,
  user_id text not null references users,
  integration text not null,
  tool text not null,
  scope text not null check (scope in ('personal', 'organization')),
  name text,
  redirect_uri text not null,
  verifier_sealed bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
create index connection_attempts_by_person on connection_attempts (organization_id, user_id, created_at);
create index connection_attempts_expired on connection_attempts (expires_at);

-- Secrets outside the database that the service removes later. A row is inserted before the secret is made, and the
-- transaction that saves the connection of the secret deletes it. If the service crashes in between, the row remains,
-- and the secret is removed. A row is also inserted if a connection is revoked.
create table secret_removals (
  connection_id text primary key,
  organization_id text not null,
  due_at timestamptz not null
);
create index secret_removals_due on secret_removals (due_at);
`
