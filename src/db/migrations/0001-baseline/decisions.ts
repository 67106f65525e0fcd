/** Decisions about calls of runs and of agents, approvals, and the sessions of agents. */
export const decisions = `
-- A decision has no foreign key to its organization, because decisions are inserted under the lock of the chain. The
-- writer has locked the organization's row of chain_head, and this row has such a foreign key.
create table decisions (
  id text primary key,
  organization_id text not null,
  run_id text,
  seq integer,
  step_id text,
  item_index integer,
  attempt integer not null default 0,
  -- These three are only set for an agent's call. session_id is an id of agent_sessions.
  session_id text,
  tool_use_id text,
  requested_by text,
  tool text not null,
  side_effect text not null,
  -- The host to which the call goes. Null: the call stays here, or an agent makes it.
  destination text,
  verdict text not null,
  rule_id text,
  rule_name text,
  matched_rules jsonb not null,
  reason text not null,
  explanation text not null,
  labels text[] not null,
  label_sources jsonb not null,
  params_hash text,
  -- params_hash of an agent's call also covers the folder of a shell. The client's report of a finished call does not
  -- name this folder, so the report is matched by input_hash, which covers the tool and its arguments alone. It is null
  -- where params_hash covers nothing else.
  input_hash text,
  approval_id text,
  policy_version bigint not null,
  bytes integer not null,
  decided_at timestamptz not null
);
create index decisions_newest on decisions (organization_id, decided_at desc, id desc);
create index decisions_of_run on decisions (run_id, seq);
create index decisions_of_call on decisions (session_id, (coalesce(input_hash, params_hash)))
  where session_id is not null;
create index decisions_of_use on decisions (tool_use_id) where tool_use_id is not null;
-- For the page of an approval: finds the decision that required it. Most decisions require none.
create index decisions_of_approvals on decisions (approval_id, decided_at) where approval_id is not null;

-- An approval is valid only for the state that its approvers saw, so it stores this state and its revision.
create table approvals (
  id text primary key,
  organization_id text not null references organizations,
  kind text not null check (kind in ('step', 'run', 'agent_call')),
  status text not null check (status in ('pending', 'approved', 'rejected', 'cancelled', 'expired')),
  run_id text,
  step_id text,
  item_index integer,
  session_id text,
  workflow_id text,
  tool text,
  side_effect text,
  destination text,
  params_sealed bytea storage external,
  params_hash text,
  state_sealed bytea storage external,
  -- How often the state has changed under an approval of this call.
  state_changes integer not null default 0,
  rule_id text,
  rule_name text,
  labels text[] not null,
  risk jsonb not null,
  requested_by text not null references users,
  authors text[] not null default '{}',
  approver text not null check (approver in ('admin', 'owner')),
  approvals_needed integer not null check (approvals_needed >= 1),
  created_at timestamptz not null,
  expires_at timestamptz,
  decided_at timestamptz,
  used_at timestamptz,
  used_by text,
  superseded_by text,
  supersedes_id text,
  -- Why this one replaces another, in one sentence without values.
  held_again text
);
create index approvals_listing on approvals (organization_id, id desc);
create index approvals_waiting on approvals (organization_id, id desc) where status = 'pending';
-- For metrics (src/governance/upkeep/state-metrics.ts).
create index approvals_pending on approvals (created_at) where status = 'pending';
create index approvals_expiring on approvals (expires_at) where status = 'pending' and expires_at is not null;
create index approvals_of_run on approvals (run_id) where run_id is not null;
create index approvals_of_call on approvals (session_id, params_hash) where session_id is not null;
create index approvals_with_inputs on approvals (decided_at) where kind = 'agent_call' and params_sealed is not null;
-- Reports count and rank approvals with these columns, so they need not read the rows of the table. The index does not
-- contain the names of rules, because it has no room for long names.
create index approvals_reported on approvals (organization_id, created_at)
  include (status, decided_at, kind, rule_id, run_id, workflow_id, tool, id);

create table approval_votes (
  approval_id text not null references approvals,
  user_id text not null references users,
  decision text not null check (decision in ('approve', 'reject')),
  changes_requested boolean not null default false,
  comment text not null default '',
  at timestamptz not null,
  primary key (approval_id, user_id),
  constraint only_rejections_request_changes check (decision = 'reject' or not changes_requested)
);

-- A session belongs to one person, and to one session id of the client.
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
  unknown_tools text[] not null default '{}',
  -- The bytes of labels, their sources and unknown tools, as the transaction that wrote the session counted them.
  label_bytes integer not null default 0,
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

-- Reports of finished calls.
create table agent_observations (
  decision_id text primary key references decisions,
  outcome text check (outcome in ('ok', 'error')),
  at timestamptz not null default clock_timestamp()
);
`
