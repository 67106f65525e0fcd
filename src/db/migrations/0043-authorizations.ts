/**
 * Connections that people authorize in their browser. The access tokens of these connections expire.
 *
 * `connection_attempts` has a row for each authorization that has begun and has no answer yet. The row has only a hash
 * of the OAuth `state`. So somebody who has a copy of the table cannot send a valid answer.
 */
export const authorizations = `
alter table connections
  -- Counts the credentials of this connection: a refresh replaces exactly the one that it has read.
  add column generation integer not null default 1,
  -- The version of the secret in another backend; null: the newest.
  add column secret_version text,
  -- Until when the kept access token may be used; null: there is none.
  add column access_fresh_until timestamptz,
  -- Until when one process alone may ask for a new access token.
  add column refreshing_until timestamptz;

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
`
