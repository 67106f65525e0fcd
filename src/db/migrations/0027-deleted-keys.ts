/** A deleted API key stays in the list and in the audit log, and can never be used again. */
export const deletedKeys = `
alter table api_keys add column deleted_at timestamptz;
`
