import { countRows, recountFunction, type CountedTable } from './count-rows.ts'
import { countedTables } from './0001-baseline/storage.ts'
import { countedVersions } from './0005-policy-versions.ts'
import { countedTriggers } from './0019-triggers.ts'
import { countedItems } from './0021-polls.ts'
import { countedReruns } from './0026-rerun-batches.ts'
import { countedResolutions } from './0027-resolutions.ts'

export const countedInputs: CountedTable = { name: 'decision_inputs', bytes: 't.bytes' }

/**
 * What agents asked about, for backtests: one row for the decisions of one transaction, because sealing each input takes as
 * long as the rest of a decision. Approvals keep the inputs of held calls themselves. Rows are inserted many times a
 * second, so the transaction that inserts them counts them, as it counts the decisions.
 */
export const decisionInputs = `
create table decision_inputs (
  -- The first of its decisions.
  id text primary key,
  organization_id text not null references organizations,
  decision_ids text[] not null,
  -- As many lines, each the canonical JSON of an input.
  sealed bytea not null,
  -- With the row itself.
  bytes integer not null,
  -- \`decided_at\` of its decisions.
  decided_at timestamptz not null
);
create index decision_inputs_by_age on decision_inputs (decided_at);
create index decision_inputs_of on decision_inputs (organization_id, decided_at);
${countRows(countedInputs)}
drop trigger decision_inputs_added on decision_inputs;
${recountFunction([
  ...countedTables,
  countedVersions,
  ...countedTriggers,
  countedItems,
  ...countedReruns,
  countedResolutions,
  countedInputs,
])}
`
