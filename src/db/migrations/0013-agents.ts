/**
 * Agents. An agent session belongs to one person, and to one session id of the client. The decisions of agent sessions
 * are in the same table as the decisions of runs. `decisions.session_id` and `approvals.session_id` are ids of
 * `agent_sessions`. `agent_observations` stores reports of finished calls. `tool_policies` stores the tool policies.
 */
export const agents = `
create table agent_sessions (
  id text primary key,
  organization_id text not null references organizations,
  user_id text not null references users,
  session_id text not null,
  run_id text not null unique,
  agent_name text not null,
  agent_kind text not null,
  status text not null check (status in ('live', 'ended', 'revoked')),
  labels text[] not null default '{}',
  label_sources jsonb not null default '[]',
  decision_seq integer not null default 0,
  allowed integer not null default 0,
  held integer not null default 0,
  denied integer not null default 0,
  unapproved integer not null default 0,
  started_at timestamptz not null,
  last_seen_at timestamptz not null,
  ended_at timestamptz,
  revoked_by text,
  revoke_reason text,
  constraint agent_sessions_name unique (user_id, session_id)
);
create index agent_sessions_listing on agent_sessions (organization_id, id desc);

alter table decisions
  add column session_id text,
  add column tool_use_id text,
  add column requested_by text;
create index decisions_of_call on decisions (session_id, params_hash) where session_id is not null;
create index decisions_of_use on decisions (tool_use_id) where tool_use_id is not null;
create index approvals_of_call on approvals (session_id, params_hash) where session_id is not null;

create index approvals_with_inputs on approvals (decided_at) where kind = 'agent_call' and params_sealed is not null;

create table agent_observations (
  decision_id text primary key references decisions,
  outcome text check (outcome in ('ok', 'error')),
  at timestamptz not null default clock_timestamp()
);

create table tool_policies (
  organization_id text not null references organizations,
  tool_name text not null,
  -- '' is the organization's own.
  role text not null check (role in ('', 'viewer', 'member', 'admin', 'owner')),
  allowed boolean,
  restrictions jsonb not null default '{}',
  created_by text not null references users,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (organization_id, tool_name, role)
);
`
