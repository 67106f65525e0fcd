/**
 * Each row names a secret outside the database that the service removes later. The row is inserted before the secret is
 * made. The transaction that saves the connection of the secret deletes the row. If the service crashes between these
 * steps, the row remains, and the secret is removed. A row is also inserted if a connection is revoked.
 */
export const secretRemovals = `
create table secret_removals (
  connection_id text primary key,
  organization_id text not null,
  due_at timestamptz not null
);
create index secret_removals_due on secret_removals (due_at);
`
