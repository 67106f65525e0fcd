/** Groups of the organization by the names of the provider's groups. Every sign-in sets who is in them. */
export const providerGroups = `
alter table sign_in_providers add column group_map jsonb not null default '{}';
`
