import { sql, type RawBuilder } from 'kysely'

/**
 * Returns a CTE that appends entries to the audit log. The values of each column are sent as one text, with line breaks
 * between them. Canonical JSON contains no line breaks. A text parameter needs no quoting, but an array would need it.
 */
export const appendEntries = (
  entries: readonly { readonly canonical: string; readonly hash: string; readonly mac: string }[],
): RawBuilder<unknown> => sql`added as (
    insert into audit_events (canonical, hash, mac)
    select * from unnest(string_to_array(${entries.map((entry) => entry.canonical).join('\n')}, chr(10)),
                         string_to_array(${entries.map((entry) => entry.hash).join('\n')}, chr(10)),
                         string_to_array(${entries.map((entry) => entry.mac).join('\n')}, chr(10)))
  )`
