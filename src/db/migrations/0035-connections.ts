import { recountFunction } from './0022-storage.ts'
import { countedWithOverrides } from './0032-role-overrides.ts'
import { countRows, type CountedTable } from './count-rows.ts'

const connectionRows: CountedTable = {
  name: 'connections',
  bytes: `1024 + octet_length(t.name) + coalesce(octet_length(t.account), 0)
    + coalesce(octet_length(t.credential_sealed), 0)`,
}

/** From this version on, triggers count the stored bytes of these tables. */
export const countedWithConnections: readonly CountedTable[] = [...countedWithOverrides, connectionRows]

/**
 * Connections of organizations and people to outside services. For each integration, an organization can have one
 * connection that is not revoked, and so can each of its people. A unique index ensures this. A revoked connection
 * loses its credential. The row of a revoked connection stays, because lists show it.
 */
export const connections = `
create table connections (
  id text primary key,
  organization_id text not null references organizations,
  integration text not null,
  -- The person of a personal connection; null for the organization's.
  owner_id text references users,
  name text not null,
  -- As the service names the account; null if it does not say.
  account text,
  status text not null default 'active' check (status in ('active', 'expired', 'revoked')),
  -- Where the credential is.
  backend text not null check (backend in ('db', 'aws_secrets_manager')),
  credential_sealed bytea,
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null references users,
  last_used_at timestamptz,
  revoked_at timestamptz,
  check ((status = 'revoked') = (revoked_at is not null)),
  check (credential_sealed is null or (backend = 'db' and status <> 'revoked'))
);
alter table connections alter column credential_sealed set storage external;
create unique index connections_live on connections (organization_id, integration, coalesce(owner_id, ''))
  where status <> 'revoked';
create index connections_by_organization on connections (organization_id, id);
create index connections_revoked on connections (revoked_at) where revoked_at is not null;

${countRows(connectionRows)}
create or replace ${recountFunction(countedWithConnections, 'coalesce(sum(2048 + label_bytes), 0)')}
`
