/** Changes of rules and settings that wait for a second person are approvals. */
export const changes = `
alter table approvals drop constraint approvals_kind_check;
alter table approvals add constraint approvals_kind_check check (kind in ('step', 'run', 'agent_call', 'change'));
-- What a change would do, in one sentence without values. Null for every other kind.
alter table approvals add column title text;
alter table approvals add check ((kind = 'change') = (title is not null));
drop index approvals_with_inputs;
create index approvals_with_inputs on approvals (decided_at) where kind in ('agent_call', 'change') and params_sealed is not null;
create index approvals_of_changes on approvals (organization_id, requested_by) where kind = 'change' and status = 'pending';
`
