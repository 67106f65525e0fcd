/** By itself, because it locks the table against reading. The index of 0032 stands in its place. */
export const approvalsListing = `
drop index approvals_listing;
`
