/** A name of a workflow in addresses and files, unique among the workflows of the organization that exist. */
export const slugs = `
alter table workflows add column slug text;
create unique index workflows_slug on workflows (organization_id, slug) where slug is not null and deleted_at is null;
`
