import { recountFunction } from './0022-storage.ts'
import { countedWithStates } from './0044-approved-state.ts'
import { countRows, type CountedTable } from './count-rows.ts'

const webhookRows: readonly CountedTable[] = [
  {
    name: 'webhooks',
    bytes: `1024 + octet_length(t.target_sealed) + octet_length(t.host) + octet_length(array_to_string(t.events, ' '))
    + coalesce(octet_length(t.disabled_reason), 0)`,
  },
  {
    name: 'webhook_events',
    bytes: `512 + octet_length(t.data::text) + octet_length(array_to_string(t.webhook_ids, ' '))
    + coalesce(octet_length(t.message), 0)`,
  },
  // This fixed number of bytes covers the text of an error, so that a delivery attempt changes no counter.
  { name: 'webhook_deliveries', bytes: '1024' },
]

/** From this version on, triggers count the stored bytes of these tables. */
export const countedWithWebhooks: readonly CountedTable[] = [...countedWithStates, ...webhookRows]

/**
 * Webhooks of organizations. The transaction that makes an event inserts one row into `webhook_events`. Later, a worker
 * writes the message of the event. The worker also inserts one row into `webhook_deliveries` for each webhook that gets
 * the event.
 */
export const webhooks = `
create table webhooks (
  id text primary key,
  organization_id text not null references organizations,
  -- JSON: the address, the secret, and for a time the secret before it.
  target_sealed bytea not null,
  host text not null,
  events text[] not null,
  active boolean not null default true,
  -- Why the service turned it off; null: it did not.
  disabled_reason text,
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null references users,
  -- When a worker must look at its deliveries; null: none waits.
  due_at timestamptz,
  -- Until when one worker alone sends its deliveries.
  leased_until timestamptz,
  -- Failed attempts since the last success, and when the first of them was.
  failures integer not null default 0,
  failing_since timestamptz,
  -- Whether its last answer took long.
  is_slow boolean not null default false
);
create index webhooks_by_organization on webhooks (organization_id, id);
create index webhooks_due on webhooks (due_at) where due_at is not null;
create index webhooks_leased on webhooks (leased_until) where leased_until is not null;

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

create table webhook_deliveries (
  id text primary key,
  organization_id text not null,
  -- Without a foreign key: deleting a webhook leaves its deliveries to housekeeping.
  webhook_id text not null,
  event_id text not null references webhook_events,
  state text not null check (state in ('waiting', 'delivered', 'failed')),
  attempts integer not null default 0,
  -- null: it has ended.
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
create index webhook_deliveries_over on webhook_deliveries (give_up_at) where state = 'waiting';
create index webhook_deliveries_ended on webhook_deliveries (ended_at) where ended_at is not null;

${webhookRows.map(countRows).join('\n')}
create or replace ${recountFunction(countedWithWebhooks, 'coalesce(sum(2048 + label_bytes), 0)')}
`
