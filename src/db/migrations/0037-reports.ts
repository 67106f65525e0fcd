/**
 * What governance reports read of approvals, without the rows themselves. Names of rules are left out: an index has no
 * room for long ones.
 */
export const reports = `
create index approvals_reported on approvals (organization_id, created_at)
  include (status, decided_at, kind, rule_id, run_id, workflow_id, tool, id);
`
