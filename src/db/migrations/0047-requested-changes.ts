/**
 * A rejection can ask for changes. The index finds the decision that held the call of an approval, for the page of this
 * approval. Most decisions have no approval, so the index does not contain them.
 */
export const requestedChanges = `
alter table approval_votes add column changes_requested boolean not null default false;
alter table approval_votes add constraint only_rejections_request_changes
  check (decision = 'reject' or not changes_requested);
create index decisions_of_approvals on decisions (approval_id, decided_at) where approval_id is not null;
`
