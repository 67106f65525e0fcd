/**
 * Webhooks of organizations. The transaction that makes an event inserts one row into `webhook_events`. Later, a worker
 * writes the message of the event, and inserts a row into `webhook_deliveries` for each webhook that gets the event.
 */
export const webhooks = `
create table webhooks (
  id text primary key,
  organization_id text not null references organizations,
  -- JSON: the address, the secret, and for a time the secret before it.
  target_sealed bytea not null,
  target_version text not null,
  host text not null,
  events text[] not null,
  active boolean not null default true,
  -- Why the service turned it off; null: it did not.
  disabled_reason text,
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null references users,
  -- When the first failed attempt since the last success was.
  failing_since timestamptz
);
create index webhooks_by_organization on webhooks (organization_id, id);

create table webhook_events (
  id text primary key,
  organization_id text not null references organizations,
  type text not null,
  data jsonb not null,
  -- The webhooks that wanted it when it happened.
  webhook_ids text[] not null,
  created_at timestamptz not null,
  -- The body of the requests; null until the deliveries are written.
  message text check (octet_length(message) <= 16384)
);
create index webhook_events_new on webhook_events (id) where message is null;
-- The list of messages finds a delivery by its approval or run.
create index webhook_events_of_subjects on webhook_events ((coalesce(data->>'approval_id', data->>'run_id')));

create table webhook_deliveries (
  id text primary key,
  organization_id text not null,
  -- Without a foreign key: if a webhook is deleted, housekeeping deletes its deliveries later.
  webhook_id text not null,
  event_id text not null references webhook_events,
  state text not null check (state in ('waiting', 'delivered', 'failed')),
  attempts integer not null default 0,
  -- Null: it has ended.
  next_attempt_at timestamptz,
  -- After this time it is not tried again.
  give_up_at timestamptz not null,
  last_attempt_at timestamptz,
  -- The status of the last answer; null without one.
  last_status integer,
  last_error text check (length(last_error) <= 300),
  created_at timestamptz not null,
  ended_at timestamptz,
  check ((state = 'waiting') = (next_attempt_at is not null)),
  check ((state = 'waiting') = (ended_at is null)),
  unique (event_id, webhook_id)
);
create index webhook_deliveries_waiting on webhook_deliveries (webhook_id, next_attempt_at) where state = 'waiting';
create index webhook_deliveries_by_webhook on webhook_deliveries (webhook_id, id);
create index webhook_deliveries_listing on webhook_deliveries (organization_id, id desc);
create index webhook_deliveries_over on webhook_deliveries (give_up_at) where state = 'waiting';
create index webhook_deliveries_ended on webhook_deliveries (ended_at) where ended_at is not null;
`
