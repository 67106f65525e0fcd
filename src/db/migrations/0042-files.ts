import { recountFunction } from './0022-storage.ts'
import { countedWithWords } from './0040-counted-words.ts'
import { countRows, type CountedTable } from './count-rows.ts'

const fileRows: CountedTable = {
  name: 'files',
  bytes: `1024 + octet_length(t.name) + octet_length(t.media_type) + octet_length(t.sha256)
    + octet_length(array_to_string(t.labels, ' ')) + octet_length(t.text_sealed)
    + coalesce(octet_length(t.rows_sealed), 0)`,
}

/** From this version on, triggers count the stored bytes of these tables. */
export const countedWithFiles: readonly CountedTable[] = [...countedWithWords, fileRows]

/**
 * Uploaded files. The service stores the text and the table rows of a file, but not the file itself
 * (docs/decisions/0105).
 */
export const files = `
create table files (
  id text primary key,
  organization_id text not null references organizations,
  name text not null,
  media_type text not null,
  -- Of the file as it was sent.
  size integer not null,
  sha256 text not null,
  labels text[] not null,
  text_sealed bytea not null,
  text_bytes integer not null,
  -- A JSON list of objects; null for a file that is no table, and for a table that is too large.
  rows_sealed bytea,
  rows_bytes integer,
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null references users,
  -- When a run last took it.
  last_used_at timestamptz,
  check ((rows_sealed is null) = (rows_bytes is null))
);
-- Sealed bytes cannot be compressed.
alter table files alter column text_sealed set storage external;
alter table files alter column rows_sealed set storage external;
create index files_by_organization on files (organization_id, id);
create index files_by_use on files (coalesce(last_used_at, created_at));

${countRows(fileRows)}
create or replace ${recountFunction(countedWithFiles, 'coalesce(sum(2048 + label_bytes), 0)')}
`
