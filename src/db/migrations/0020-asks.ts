/** Questions of runs to people. Each is a row of approvals, and never an approval. */
export const asks = `
alter table approvals drop constraint approvals_kind_check;
alter table approvals add constraint approvals_kind_check check (kind in ('step', 'run', 'agent_call', 'change', 'ask'));
alter table approvals drop constraint approvals_status_check;
alter table approvals add constraint approvals_status_check check (status in ('pending', 'approved', 'rejected', 'cancelled', 'expired', 'answered'));
-- What a change would do, or what a run asks, in one sentence without values. Null for every other kind.
alter table approvals drop constraint approvals_check1;
alter table approvals add constraint approvals_title_check check ((kind in ('change', 'ask')) = (title is not null));
-- Who answered, and the absent person by whose right.
alter table approvals add column answered_by text references users;
alter table approvals add column answered_for text references users;
alter table approvals add constraint approvals_answered_check check ((status = 'answered') = (answered_by is not null) and (status <> 'answered' or kind = 'ask'));
`
