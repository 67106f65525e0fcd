/**
 * Adds indexes for two lists. The list of messages now also shows deliveries of webhooks, and finds a delivery by its
 * approval or run. The list of waiting approvals no longer reads approvals that have ended.
 */
export const listsOfMessages = `
create index webhook_deliveries_listing on webhook_deliveries (organization_id, id desc);
create index webhook_events_of_subjects on webhook_events ((coalesce(data->>'approval_id', data->>'run_id')));
create index approvals_waiting on approvals (organization_id, id desc) where status = 'pending';
`
