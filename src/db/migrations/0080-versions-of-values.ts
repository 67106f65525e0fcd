/**
 * The versions of sealed values in columns that are written again (sealing/places.ts). Existing values have no version.
 * Credentials already have a column for it, `connections.secret_version`.
 */
export const versionsOfValues = `
alter table memory add column value_version text;
alter table webhooks add column target_version text;
`
