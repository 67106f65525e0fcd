import { sql, type RawBuilder } from 'kysely'

/**
 * Part of a statement: appends entries. Texts are joined with line breaks: canonical JSON contains none, and one text
 * parameter needs no array quoting.
 */
export const appendEntries = (
  entries: readonly { readonly canonical: string; readonly hash: string }[],
): RawBuilder<unknown> => sql`added as (
    insert into audit_events (canonical, hash)
    select * from unnest(string_to_array(${entries.map((entry) => entry.canonical).join('\n')}, chr(10)),
                         string_to_array(${entries.map((entry) => entry.hash).join('\n')}, chr(10)))
  )`
