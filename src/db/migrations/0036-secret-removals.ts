/**
 * Secrets in a backend outside the database that no connection names, or may never name. A row is written before the
 * secret is made, and deleted with the transaction that saves its connection; so a crash in between leaves no secret
 * that nobody removes. A revocation writes one too.
 */
export const secretRemovals = `
create table secret_removals (
  connection_id text primary key,
  organization_id text not null,
  due_at timestamptz not null
);
create index secret_removals_due on secret_removals (due_at);
`
