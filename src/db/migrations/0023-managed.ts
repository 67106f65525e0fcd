/** What files of a repository decide. Null: people change it with single requests and on pages. */
export const managed = `
alter table rules add column managed_by jsonb;
alter table label_rules add column managed_by jsonb;
alter table groups add column managed_by jsonb;
alter table tool_policies add column managed_by jsonb;
alter table role_policy_overrides add column managed_by jsonb;
alter table workflows add column managed_by jsonb;
-- Its settings.
alter table organizations add column managed_by jsonb;
`
