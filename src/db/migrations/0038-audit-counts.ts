/**
 * How many entries of each kind a closed segment of a chain has, so that listings and reports do not count a whole chain.
 * '' stands for any event type, any person and any status. The row with three '' is written with all other rows of its
 * segment. Decisions are also counted by status.
 */
export const auditCounts = `
create table audit_counts (
  organization_id text not null references organizations,
  event_type text not null,
  user_id text not null,
  status text not null,
  segment bigint not null,
  entries integer not null,
  primary key (organization_id, event_type, user_id, status, segment) include (entries)
);
`
