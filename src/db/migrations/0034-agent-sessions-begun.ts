/** Reports count the sessions of agents by the time at which they began. */
export const agentSessionsBegun = `
create index agent_sessions_begun on agent_sessions (organization_id, started_at);
`
