/** An agent's session remembers which files it wrote that a later command would run. */
export const agentSessionsWritten = `
alter table agent_sessions add column written text[] not null default '{}';
`
