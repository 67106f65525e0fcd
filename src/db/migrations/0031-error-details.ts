import { countedWithLabels } from './0026-counted-labels.ts'
import { recountFunction } from './0022-storage.ts'
import { countRows } from './count-rows.ts'

const bytes =
  "coalesce(octet_length(t.error_detail_sealed), 0) + octet_length(t.past_outcomes::text) - octet_length('[]')"

/** From this version on, triggers count the stored bytes of these tables. */
export const countedWithDetails = countedWithLabels.map((table) =>
  table.name === 'effects' ? { ...table, bytes: `${table.bytes} + ${bytes}` } : table,
)

/**
 * Adds values that belong to a call's error. Example: the recipients that a mail server refused. Also adds the outcomes
 * of earlier attempts. Receipts show these outcomes.
 */
export const errorDetails = `
alter table effects
  add column error_detail_sealed bytea,
  add column past_outcomes jsonb not null default '[]';

${countedWithDetails
  .filter(({ name }) => name === 'effects')
  .map(countRows)
  .join('\n')}
create or replace ${recountFunction(countedWithDetails, 'coalesce(sum(2048 + label_bytes), 0)')}
`
