/** A version says which second person approved the change that made it. Null: none was needed. */
export const versionApprovals = `
alter table policy_versions add column approved_by text references users;
`
