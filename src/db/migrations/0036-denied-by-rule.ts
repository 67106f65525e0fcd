/** The rest of 0035. One migration that waits for two tables can deadlock with a request that writes both. */
export const deniedByRule = `
create index decisions_denied on decisions (organization_id, rule_id, decided_at) where verdict = 'deny' and rule_id is not null;
`
