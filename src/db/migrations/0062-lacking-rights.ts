/**
 * Stores the tools for which a connection lacks a right. So lists and plans can show these tools without reading the
 * credential.
 */
export const lackingRights = `
alter table connections
  -- Tools for which the authorization server did not grant a right, as of its last answer.
  add column lacking text[] not null default '{}';
`
