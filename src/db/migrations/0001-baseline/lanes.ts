/** The queue: who works when, on what waits for one receiver. */
export const lanes = `
create sequence lane_ids;

-- A lane is the right to work, one turn after another, on what waits for one receiver. Rows of other tables say what
-- waits; what Temporal must be told stands in the lane itself.
create table lanes (
  kind text not null check (kind in ('temporal', 'slack', 'mail', 'webhook', 'clock')),
  -- An organization, a webhook or a task. A message to Temporal has a number.
  id text not null default nextval('lane_ids')::text,
  organization_id text references organizations,
  message jsonb,
  -- When the next turn can begin. Infinity: nothing waits.
  due_at timestamptz not null default clock_timestamp(),
  -- After a failure, or because the receiver has asked for it.
  paused_until timestamptz,
  -- The turn of the process that works now. If the process dies, another takes the lane when the lease ends.
  turn text,
  leased_until timestamptz,
  -- Turns in a row that have failed.
  failures integer not null default 0,
  -- The last turn has failed or was slow.
  is_ailing boolean not null default false,
  last_error text check (length(last_error) <= 500),
  created_at timestamptz not null default clock_timestamp(),
  primary key (kind, id)
);
create index lanes_due on lanes (kind, is_ailing, coalesce(leased_until, greatest(due_at, paused_until)));
`
