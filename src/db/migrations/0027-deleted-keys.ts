/** A deleted key stays in the list and in the audit log, and never works again. */
export const deletedKeys = `
alter table api_keys add column deleted_at timestamptz;
`
