/**
 * The folders outside the database that have had a checkpoint of an organization's audit log. A row stays until an
 * operator accepts that the folder has lost the checkpoint.
 */
export const checkpointFolders = `
create table checkpoint_folders (
  organization_id text not null references organizations,
  folder_id text not null,
  since timestamptz not null default now(),
  primary key (organization_id, folder_id)
);
`
