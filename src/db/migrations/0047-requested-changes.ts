/**
 * A rejection can ask for changes. For the page of an approval, the index finds the decision that required this
 * approval. Most decisions have no approval. The index leaves these decisions out.
 */
export const requestedChanges = `
alter table approval_votes add column changes_requested boolean not null default false;
alter table approval_votes add constraint only_rejections_request_changes
  check (decision = 'reject' or not changes_requested);
create index decisions_of_approvals on decisions (approval_id, decided_at) where approval_id is not null;
`
