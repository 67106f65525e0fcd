/**
 * Governance reports count and rank approvals with these columns. With this index, the reports need not read the rows
 * of the table for this. The index does not contain the names of rules, because it has no room for long names.
 */
export const reports = `
create index approvals_reported on approvals (organization_id, created_at)
  include (status, decided_at, kind, rule_id, run_id, workflow_id, tool, id);
`
