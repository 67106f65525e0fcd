/**
 * Stores the id of the request that started a run, because lines of the log about the run contain this id. The indexes
 * serve the metrics of approvals and unknown outcomes that wait for a person (upkeep/state-metrics.ts).
 */
export const requestIds = `
alter table runs add column request_id text;
create index approvals_pending on approvals (created_at) where status = 'pending';
create index effects_unknown on effects (run_id) where state = 'unknown_outcome';
`
