/** Which tools of a connection's service lack a right, so that lists and plans can say so without opening credentials. */
export const lackingRights = `
alter table connections
  -- Tools for which the authorization server did not grant a right, as of its last answer.
  add column lacking text[] not null default '{}';
`
