/** Stores which tools lack a right in a connection. So lists and plans can show this without reading the credential. */
export const lackingRights = `
alter table connections
  -- Tools for which the authorization server did not grant a right, as of its last answer.
  add column lacking text[] not null default '{}';
`
