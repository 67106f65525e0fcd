/** Messages to people and programs: something waits for a decision, or no longer waits. */
export const messages = `
-- The transaction that makes a change inserts a row. The row stays until the rows of notifications reflect the change.
create table notices (
  id bigint primary key generated always as identity,
  organization_id text not null references organizations,
  kind text not null check (kind in ('approval', 'call', 'run')),
  -- The id of an approval, RUN/STEP/ITEM for an unknown outcome, or the id of a run.
  subject text not null,
  created_at timestamptz not null default clock_timestamp()
);
create index notices_by_organization on notices (organization_id, id);

create table notifications (
  id text primary key,
  organization_id text not null references organizations,
  channel text not null check (channel in ('slack', 'mail', 'webhook')),
  event text not null,
  kind text not null check (kind in ('approval', 'call', 'run', 'claim')),
  subject text not null,
  -- Tells several unknown outcomes of one call apart: the attempt whose outcome is unknown. Otherwise 0.
  round integer not null default 0,
  -- The id of a person or of a webhook.
  recipient text not null,
  -- The row that stands for the message: this one, or the one whose message this one shares. Only that row's state,
  -- attempts, place and errors count.
  message_id text not null,
  -- RUN/STEP where several items may share a message.
  group_key text,
  state text not null default 'pending' check (state in ('pending', 'sent', 'updated', 'failed')),
  -- Counts what the message must show, and what it shows. There is work as long as they differ.
  wanted integer not null default 1,
  shown integer not null default 0,
  -- SHA-256 of the text that the message shows.
  shown_hash text,
  attempts integer not null default 0,
  -- Failed looks and updates since the last success.
  failures integer not null default 0,
  -- Set before a message is sent, and cleared when it was certainly not sent.
  intent_at timestamptz,
  next_attempt_at timestamptz not null default clock_timestamp(),
  -- Where the message is at its service.
  place jsonb,
  last_error text check (length(last_error) <= 500),
  created_at timestamptz not null default clock_timestamp(),
  sent_at timestamptz,
  unique (organization_id, subject, round, event, channel, recipient)
);
create index notifications_due on notifications (channel, organization_id, next_attempt_at)
  where shown < wanted and id = message_id;
create index notifications_of_message on notifications (message_id);
create index notifications_of_group on notifications (organization_id, group_key, recipient)
  where group_key is not null and id = message_id;
create index notifications_listing on notifications (organization_id, id desc);
create index notifications_by_age on notifications (created_at);
create index notifications_mail on notifications (organization_id, next_attempt_at)
  where channel = 'mail' and state = 'pending' and id = message_id;
create index notifications_mailed on notifications (organization_id, sent_at) where channel = 'mail';

-- A member without a row has the default settings.
create table mail_preferences (
  organization_id text not null references organizations,
  user_id text not null references users,
  mail boolean not null,
  -- A mail leaves if nobody has decided after so many seconds.
  delay_seconds integer not null check (delay_seconds between 0 and 86400),
  primary key (organization_id, user_id)
);
`
