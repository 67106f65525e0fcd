/**
 * Secrets that the service removes later from a backend outside the database. A row is inserted before a secret is
 * made, and deleted in the transaction that saves the connection of the secret. So after a crash in between, the row
 * remains and the secret is removed. Revoking a connection inserts a row too.
 */
export const secretRemovals = `
create table secret_removals (
  connection_id text primary key,
  organization_id text not null,
  due_at timestamptz not null
);
create index secret_removals_due on secret_removals (due_at);
`
