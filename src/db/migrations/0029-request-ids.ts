/**
 * Stores the id of the request that started a run. Log lines about the run contain this id. The indexes are for
 * metrics: they find the approvals and the unknown outcomes that wait for a person (upkeep/state-metrics.ts).
 */
export const requestIds = `
alter table runs add column request_id text;
create index approvals_pending on approvals (created_at) where status = 'pending';
create index effects_unknown on effects (run_id) where state = 'unknown_outcome';
`
