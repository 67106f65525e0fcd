import { recountFunction } from './0022-storage.ts'
import { countedWithConnections } from './0035-connections.ts'
import { countRows, type CountedTable } from './count-rows.ts'

/**
 * Columns with texts that people wrote. Older versions did not count these columns. Each key is the name of a table.
 */
const words: Readonly<Record<string, string>> = { runs: 'cancel_reason', run_steps: 'summary' }

const recounted: readonly CountedTable[] = countedWithConnections.flatMap((table) => {
  const column = words[table.name]
  return column === undefined
    ? []
    : [{ ...table, bytes: `${table.bytes} + coalesce(octet_length(t.${column}), 0)` }]
})

/** From this version on, triggers count the stored bytes of these tables. */
export const countedWithWords = countedWithConnections.map(
  (table) => recounted.find(({ name }) => name === table.name) ?? table,
)

/**
 * From this version on, summaries of steps and reasons of cancellations count towards `storage_mb`. The last statement
 * makes a full recount due at once.
 */
export const countedWords = `
${recounted.map(countRows).join('\n')}
create or replace ${recountFunction(countedWithWords, 'coalesce(sum(2048 + label_bytes), 0)')}
update chain_head set storage_counted_at = '-infinity';
`
