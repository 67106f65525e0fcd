/**
 * Lines in the log of a run name the request that started it. The indexes serve the metrics of what waits for a person
 * (upkeep/state-metrics.ts).
 */
export const requestIds = `
alter table runs add column request_id text;
create index approvals_pending on approvals (created_at) where status = 'pending';
create index effects_unknown on effects (run_id) where state = 'unknown_outcome';
`
