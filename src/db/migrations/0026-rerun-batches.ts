import { countRows, recountFunction, type CountedTable } from './count-rows.ts'
import { countedTables } from './0001-baseline/storage.ts'
import { countedVersions } from './0005-policy-versions.ts'
import { countedTriggers } from './0019-triggers.ts'
import { countedItems } from './0021-polls.ts'

export const countedReruns: CountedTable[] = [
  { name: 'reruns', bytes: '2048' },
  { name: 'rerun_items', bytes: '1024', ofOrganization: 'join reruns o on o.id = t.rerun_id' },
]

/** Many runs are made again by one request. A worker starts them one after another, for the person who asked. */
export const rerunBatches = `
create table reruns (
  id text primary key,
  organization_id text not null references organizations,
  requested_by text not null references users,
  -- The key that asked; null: a sign-in session did, and the row itself is the right to act until it ends.
  api_key_id text,
  -- Whether a second factor backed the session.
  with_factor boolean not null,
  -- Whether the session or key acts only in this organization.
  bound boolean not null,
  -- Which runs were asked for, and how they are made again.
  filter jsonb not null,
  options jsonb not null,
  -- Why nothing starts now, or why it ended early.
  reason text check (length(reason) <= 500),
  created_at timestamptz not null,
  -- What has not started by then never does.
  expires_at timestamptz not null,
  ended_at timestamptz
);
comment on table reruns is 'requests to make many runs again';
create index reruns_listing on reruns (organization_id, id desc);
create index reruns_open on reruns (organization_id) where ended_at is null;
create index reruns_ended on reruns (ended_at) where ended_at is not null;

create table rerun_items (
  rerun_id text not null references reruns on delete cascade,
  organization_id text not null,
  position integer not null,
  run_id text not null references runs,
  state text not null check (state in ('waiting', 'started', 'refused', 'cancelled')),
  new_run_id text references runs,
  reason text check (length(reason) <= 500),
  primary key (rerun_id, position),
  check ((state = 'started') = (new_run_id is not null))
);
create index rerun_items_waiting on rerun_items (rerun_id, position) where state = 'waiting';

alter table lanes drop constraint lanes_kind_check,
  add constraint lanes_kind_check check (kind in ('temporal', 'slack', 'mail', 'webhook', 'clock', 'trigger', 'rerun'));

${countedReruns.map(countRows).join('\n')}
${recountFunction([...countedTables, countedVersions, ...countedTriggers, countedItems, ...countedReruns])}
`
