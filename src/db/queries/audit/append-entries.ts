import { sql, type RawBuilder } from 'kysely'

/**
 * Part of a statement: appends entries to the audit log. The values of a column are joined with line breaks, which
 * canonical JSON does not contain. So each column is one text parameter, which needs no quoting as an array.
 */
export const appendEntries = (
  entries: readonly { readonly canonical: string; readonly hash: string }[],
): RawBuilder<unknown> => sql`added as (
    insert into audit_events (canonical, hash)
    select * from unnest(string_to_array(${entries.map((entry) => entry.canonical).join('\n')}, chr(10)),
                         string_to_array(${entries.map((entry) => entry.hash).join('\n')}, chr(10)))
  )`
