/** Whoever was removed does not join again by signing in with the provider. */
export const removedMembers = `
create table removed_members (
  organization_id text not null references organizations,
  user_id text not null references users,
  primary key (organization_id, user_id)
);
comment on table removed_members is 'People whose last membership was ended by an owner or by the directory.';
`
