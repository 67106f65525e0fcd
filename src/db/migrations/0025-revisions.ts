/** The parameters of a held call can be edited: by its requester, if an approver asks for changes, or by an approver. */
export const revisions = `
alter table approvals drop constraint approvals_kind_check;
alter table approvals add constraint approvals_kind_check
  check (kind in ('step', 'run', 'agent_call', 'change', 'ask', 'repeat', 'revision', 'edit'));
alter table approvals drop constraint approvals_status_check;
alter table approvals add constraint approvals_status_check
  check (status in ('pending', 'approved', 'rejected', 'cancelled', 'expired', 'answered', 'revised'));
-- Who answered, or edited what the approval covered.
alter table approvals drop constraint approvals_answered_check;
alter table approvals add constraint approvals_answered_check check (
  (status in ('answered', 'revised')) = (answered_by is not null) and (status <> 'answered' or kind = 'ask'));
alter table approvals
  -- Names of the edited parameters, and the comment of the person who edited. Null: nobody edited them.
  add column revision jsonb,
  -- Who typed values that the approval covers.
  add column typed_by text[] not null default '{}',
  -- Names of the parameters that an approver may edit.
  add column may_edit text[] not null default '{}',
  add constraint approvals_revision_check check ((status = 'revised') = (revision is not null));
-- How often the parameters of the call were edited, by whom, and which labels it has therefore.
alter table effects add column revision jsonb;
`
