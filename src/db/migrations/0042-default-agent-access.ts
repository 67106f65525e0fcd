/** Calls of agents of a group's members, or with a key, may need a rule that allows them. */
export const defaultAgentAccess = `
alter table groups add column default_agent_access text not null default 'allow'
  check (default_agent_access in ('allow', 'deny'));
alter table api_keys add column default_agent_access text not null default 'allow'
  check (default_agent_access in ('allow', 'deny'));
`
