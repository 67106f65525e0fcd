/**
 * This index contains the columns of approvals that governance reports use. So the reports need not read the rows
 * themselves. Names of rules are left out, because an index has no room for long names.
 */
export const reports = `
create index approvals_reported on approvals (organization_id, created_at)
  include (status, decided_at, kind, rule_id, run_id, workflow_id, tool, id);
`
