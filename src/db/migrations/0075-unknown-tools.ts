/** The unknown tools that each session of an agent has asked for. `label_bytes` counts their names too. */
export const unknownTools = `
alter table agent_sessions add column unknown_tools text[] not null default '{}';
`
