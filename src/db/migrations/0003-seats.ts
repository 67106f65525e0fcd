/** Groups decide approvals, and policies and overrides name groups. */
export const seats = `
-- Null if only groups decide.
alter table approvals alter column approver drop not null;
-- Who must approve: a list of {role, count} and {group, id, count}. Null if approver and approvals_needed say all.
alter table approvals add column seats jsonb;
alter table approvals add check (approver is not null or seats is not null);
-- The role can be the name of a group.
alter table tool_policies drop constraint tool_policies_role_check;
`
