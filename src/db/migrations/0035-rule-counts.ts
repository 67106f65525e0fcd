/** The list of rules counts what each rule held and denied lately. */
export const ruleCounts = `
create index approvals_of_rule on approvals (organization_id, rule_id, created_at) where rule_id is not null;
`
