import { countRows, recountFunction, type CountedTable } from './count-rows.ts'
import { countedTables } from './0001-baseline/storage.ts'
import { countedVersions } from './0005-policy-versions.ts'
import { countedTriggers } from './0019-triggers.ts'
import { countedItems } from './0021-polls.ts'
import { countedReruns } from './0026-rerun-batches.ts'

export const countedResolutions: CountedTable = {
  name: 'resolutions',
  bytes: '512',
  ofOrganization: 'join runs o on o.id = t.run_id',
}

/** What people said about calls whose outcome nobody knew. It stays as long as the run does. */
export const resolutions = `
create table resolutions (
  run_id text not null references runs,
  step_id text not null,
  item_index integer not null,
  attempt integer not null,
  organization_id text not null,
  outcome text not null check (outcome in ('retry', 'done', 'fail')),
  resolved_by text not null references users,
  -- The address at that time.
  email text not null,
  at timestamptz not null
);
-- A call that is to be made again and is refused is unknown again in the same attempt, so an attempt can have several.
create index resolutions_of_calls on resolutions (run_id, step_id, at desc);
comment on table resolutions is 'what people said about calls with an unknown outcome';

${countRows(countedResolutions)}
${recountFunction([...countedTables, countedVersions, ...countedTriggers, countedItems, ...countedReruns, countedResolutions])}
`
