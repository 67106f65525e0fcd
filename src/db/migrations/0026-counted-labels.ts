import { countedSealed } from './0023-sealing.ts'
import { recountFunction } from './0022-storage.ts'
import { countRows, type CountedTable } from './count-rows.ts'

const bytesOf = (column: string): string => `coalesce(octet_length(array_to_string(t.${column}, ' ')), 0)`

/** Columns with labels. Older versions did not count these columns. Each key is the name of a table. */
const labelsOf: Readonly<Record<string, readonly string[]>> = {
  effects: ['labels', 'output_labels'],
  run_steps: ['labels'],
  approvals: ['labels'],
}
const recounted: readonly CountedTable[] = countedSealed.flatMap((table) => {
  const columns = labelsOf[table.name]
  return columns === undefined
    ? []
    : [{ ...table, bytes: [table.bytes, ...columns.map(bytesOf)].join(' + ') }]
})

/** From this version on, triggers count the stored bytes of these tables. */
export const countedWithLabels = countedSealed.map(
  (table) => recounted.find(({ name }) => name === table.name) ?? table,
)

/**
 * From this version on, labels count towards `storage_mb`. The transaction that writes an agent session counts the
 * labels and the label sources of the session. The last statement makes a full recount due immediately. The recount
 * adds the labels of older rows to the counters.
 */
export const countedLabels = `
-- As they were counted: labels and their sources.
alter table agent_sessions add column label_bytes integer not null default 0;

${recounted.map(countRows).join('\n')}
create or replace ${recountFunction(countedWithLabels, 'coalesce(sum(2048 + label_bytes), 0)')}
update chain_head set storage_counted_at = '-infinity';
`
