/**
 * Adds the summary of a step and the reason of a cancellation. The index is for the list of an organization's unknown
 * outcomes.
 */
export const whatWaits = `
alter table run_steps add column summary text;
alter table runs add column cancel_reason text;
create index effects_unresolved on effects (organization_id, run_id, step_id, item_index)
  where state = 'unknown_outcome' and resolved_outcome is null;
`
