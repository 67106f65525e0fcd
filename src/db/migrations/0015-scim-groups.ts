/** Groups that the directory of a company has made, and alone changes. */
export const scimGroups = `
create table scim_groups (
  group_id text primary key references groups on delete cascade,
  organization_id text not null references organizations,
  -- As the directory writes it. The name of the group comes from it.
  display_name text not null,
  external_id text
);
create unique index scim_groups_external on scim_groups (organization_id, external_id) where external_id is not null;
comment on table scim_groups is 'Groups that the directory of an organization has made.';
`
