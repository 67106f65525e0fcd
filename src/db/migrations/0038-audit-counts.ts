/**
 * Stores how many entries of each kind a complete segment of a chain has. Lists and reports use these numbers, so they
 * need not count a whole chain. '' means any event type, any person or any status. Only decisions are also counted by
 * status. All rows of a segment are inserted together. So if a segment has the row with '' in all three columns, it has
 * all its rows.
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
