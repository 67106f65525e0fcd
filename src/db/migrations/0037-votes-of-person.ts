/** The list of approvals shows what one person decided, and reports count approving votes from this index alone. */
export const votesOfPerson = `
create index approval_votes_of_person on approval_votes (user_id, approval_id) include (decision);
`
