/** The list of approvals is searched, and shows what was decided: each page of it reads this index, and then only its own rows. */
export const approvalsSearch = `
-- What everybody sees of what is asked. Bounded, because the index has no room for long names.
alter table approvals add column sought text not null generated always as (lower(left(coalesce(tool, '') || ' ' || coalesce(title, ''), 300))) stored;
create index approvals_sought on approvals (organization_id, id desc) include (status, kind, rule_id, run_id, workflow_id, requested_by, sought);
drop index approvals_listing;
create index approvals_of_groups on approvals (organization_id, id desc) where seats is not null;
create index approvals_answered on approvals (answered_by) where answered_by is not null;
create index approval_votes_of_person on approval_votes (user_id, approval_id);
`
