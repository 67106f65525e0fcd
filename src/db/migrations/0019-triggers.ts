import { countRows, recountFunction, type CountedTable } from './count-rows.ts'
import { countedTables } from './0001-baseline/storage.ts'
import { countedVersions } from './0005-policy-versions.ts'

export const countedTriggers: CountedTable[] = [
  { name: 'triggers', bytes: '1024 + octet_length(t.sealed) + octet_length(t.settings::text)' },
  // This fixed number of bytes covers the reason, so that the end of a firing changes no counter.
  {
    name: 'trigger_firings',
    bytes: '1024',
    ofOrganization: 'join triggers o on o.id = t.trigger_id',
  },
]

/**
 * Triggers start runs of a workflow at due times, or when a message arrives. A firing is one of these occasions. The
 * unique indexes keep an occasion from starting a second run.
 */
export const triggers = `
create table triggers (
  id text primary key,
  organization_id text not null references organizations,
  workflow_id text not null references workflows,
  name text not null,
  kind text not null check (kind in ('schedule', 'webhook')),
  -- The frozen version that it starts; null: the current one.
  version integer,
  service_account text not null references service_accounts,
  -- Whether inputs carry the label.
  untrusted boolean not null default true,
  -- What its kind needs: times, or how messages are proved and answered.
  settings jsonb not null,
  -- JSON: the inputs, and the secret of a webhook.
  sealed bytea not null,
  sealed_version text not null,
  -- Everybody who made, changed or resumed it. Like authors, they do not decide what its runs ask for.
  armed_by text[] not null,
  -- Whether a second factor backed the last of them.
  with_factor boolean not null,
  -- Failures before this time do not count.
  active_since timestamptz not null,
  -- Null: it is active.
  paused_reason text,
  -- Whether the people who armed it must still be told that the service paused it.
  tells boolean not null default false,
  -- The next due time of a schedule.
  next_due_at timestamptz,
  created_by text not null references users,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  check ((kind = 'schedule') = (next_due_at is not null))
);
comment on table triggers is 'what starts runs without a person: schedules and incoming webhooks';
create index triggers_listing on triggers (organization_id, id desc);
create index triggers_by_workflow on triggers (workflow_id, id desc);

create table trigger_firings (
  id text primary key,
  organization_id text not null,
  trigger_id text not null references triggers on delete cascade,
  state text not null check (state in ('waiting', 'started', 'skipped', 'failed')),
  due_at timestamptz,
  delivery_id text,
  run_id text references runs,
  reason text check (length(reason) <= 500),
  created_at timestamptz not null,
  check ((state = 'started') = (run_id is not null))
);
create unique index trigger_firings_due on trigger_firings (trigger_id, due_at);
create unique index trigger_firings_delivery on trigger_firings (trigger_id, delivery_id);
create index trigger_firings_listing on trigger_firings (trigger_id, id desc);
create index trigger_firings_waiting on trigger_firings (trigger_id, due_at) where state = 'waiting';
create index trigger_firings_runs on trigger_firings (run_id) where run_id is not null;
create index trigger_firings_age on trigger_firings (created_at);

alter table lanes drop constraint lanes_kind_check,
  add constraint lanes_kind_check check (kind in ('temporal', 'slack', 'mail', 'webhook', 'clock', 'trigger'));
alter table request_windows drop constraint request_windows_bucket_check,
  add constraint request_windows_bucket_check check (bucket in ('requests_per_minute', 'requests_per_day',
    'authorize_per_minute', 'agent_reports_per_minute', 'quota_changes_per_minute', 'deliveries_per_minute'));

${countedTriggers.map(countRows).join('\n')}
${recountFunction([...countedTables, countedVersions, ...countedTriggers])}
`
