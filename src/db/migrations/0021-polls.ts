import { countRows, recountFunction, type CountedTable } from './count-rows.ts'
import { countedTables } from './0001-baseline/storage.ts'
import { countedVersions } from './0005-policy-versions.ts'
import { countedTriggers } from './0019-triggers.ts'

export const countedItems: CountedTable = {
  name: 'trigger_items',
  bytes: '256',
  ofOrganization: 'join triggers o on o.id = t.trigger_id',
}

/**
 * A trigger of the kind `poll` asks a reading tool again and again. Each call is a run of a workflow with one step,
 * which the trigger has for itself. The output names items, and each new one is a firing.
 */
export const polls = `
-- The trigger whose calls it makes. Such workflows and runs are in no list. Null: all others.
alter table workflows add column poll_of text;
alter table runs add column poll_of text;
drop index runs_listing;
create index runs_listing on runs (organization_id, id desc) where poll_of is null;

alter table triggers drop constraint triggers_kind_check, drop constraint triggers_check,
  add constraint triggers_kind_check check (kind in ('schedule', 'webhook', 'poll')),
  add constraint triggers_check check ((kind = 'webhook') = (next_due_at is null)),
  add column poll_workflow_id text references workflows,
  -- The run of the call that has not been evaluated yet.
  add column poll_run_id text references runs,
  -- When a call was last evaluated. Null: the next one is the first.
  add column polled_at timestamptz,
  add constraint triggers_polls check ((kind = 'poll') = (poll_workflow_id is not null));
comment on table triggers is 'what starts runs without a person: schedules, incoming webhooks and polls';

-- The run whose output has the item, or which failed. Null: of a schedule or webhook.
alter table trigger_firings add column poll_run_id text references runs;

-- The few lanes that have a turn: a process counts them before it takes others.
create index lanes_leased on lanes (kind, leased_until) where leased_until is not null;

-- Items that have a firing, or were there before the trigger.
create table trigger_items (
  trigger_id text not null references triggers on delete cascade,
  organization_id text not null,
  -- A hash of its id.
  item text not null,
  -- About when a poll has last seen it: at most a day earlier.
  seen_at timestamptz not null,
  primary key (trigger_id, item)
);

${countRows(countedItems)}
${recountFunction([...countedTables, countedVersions, ...countedTriggers, countedItems])}
`
