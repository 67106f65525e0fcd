/**
 * The number of entries of each kind in a closed segment of a chain. With these numbers, lists and reports do not count
 * a whole chain. '' means any event type, any person or any status. The row with '' in all three columns is written
 * together with all other rows of its segment. Decisions are also counted by status.
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
