import { sql, type RawBuilder } from 'kysely'

/**
 * Part of a statement: appends entries to the audit log. The values of a column are joined to one text with line
 * breaks, which canonical JSON does not contain. One text parameter needs no quoting, which an array would need.
 */
export const appendEntries = (
  entries: readonly { readonly canonical: string; readonly hash: string }[],
): RawBuilder<unknown> => sql`added as (
    insert into audit_events (canonical, hash)
    select * from unnest(string_to_array(${entries.map((entry) => entry.canonical).join('\n')}, chr(10)),
                         string_to_array(${entries.map((entry) => entry.hash).join('\n')}, chr(10)))
  )`
