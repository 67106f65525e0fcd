/** The list of approvals is searched, and shows what was decided: each page of it reads this index, and then only its own rows. */
export const approvalsSearch = `
-- Either the tool is null or the title, and names in them have at most 200 characters: there is room for both.
create index approvals_sought on approvals (organization_id, id desc)
  include (status, kind, rule_id, run_id, workflow_id, requested_by, tool, title);
create index approvals_of_groups on approvals (organization_id, id desc) where seats is not null;
create index approvals_answered on approvals (answered_by) where answered_by is not null;
`
