import { counted, recountFunction } from './0022-storage.ts'
import { countRows, type CountedTable } from './count-rows.ts'

/**
 * The tables with sealed columns. From this version on, triggers count them like this. A sealed value counts as many
 * bytes as its plain text.
 */
const recounted: readonly CountedTable[] = [
  {
    name: 'effects',
    bytes: `512 + coalesce(octet_length(t.params_sealed), 0) + value_bytes(t.output_sealed, t.output)
      + octet_length(t.label_sources::text) + coalesce(octet_length(t.error::text), 0)`,
    ofOrganization: 'join runs o on o.id = t.run_id',
  },
  {
    name: 'runs',
    bytes: `1024 + value_bytes(t.inputs_sealed, t.inputs) + octet_length(t.input_labels::text)
      + value_bytes(t.result_sealed, t.result) + octet_length(t.risk::text)`,
  },
  { name: 'memory', bytes: '256 + memory_bytes(t.key, t.value_sealed, t.value, t.labels)' },
]
export const countedSealed = counted.map(
  (table) => recounted.find(({ name }) => name === table.name) ?? table,
)

/**
 * Adds data keys, and sealed columns for inputs, results, outputs and memory values. A row of an older version keeps
 * its plain text until `npm run rotate-key` seals the row. This migration rewrites no row, so that no table is locked
 * for long. Sealed columns have the storage `external`, which does not compress. Compression would not make sealed
 * bytes smaller. Without compression, PostgreSQL can read the header of a value without the rest.
 */
export const sealing = `
create table data_keys (
  id text primary key check (id ~ '^[0-9a-f]{16}$'),
  -- The key with the highest generation seals new values.
  generation integer not null unique,
  -- Sealed with the installation's own key, DATA_ENCRYPTION_KEY.
  wrapped bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  -- When no value was found any more that names it. The row stays: it opens what a backup brings back.
  retired_at timestamptz
);

alter table runs
  alter column inputs drop not null,
  add column inputs_sealed bytea,
  add column result_sealed bytea;
alter table runs
  alter column inputs_sealed set storage external,
  alter column result_sealed set storage external;

alter table effects add column output_sealed bytea;
alter table effects
  alter column output_sealed set storage external,
  alter column params_sealed set storage external;
alter table approvals alter column params_sealed set storage external;

alter table memory
  alter column value drop not null,
  add column value_sealed bytea;
alter table memory
  alter column value_sealed set storage external,
  add constraint memory_has_one_value check (deleted_at is not null or num_nonnulls(value, value_sealed) = 1) not valid;

-- How many bytes a value had before it was sealed in format 2, or of a plain text; 0 of neither.
create function value_bytes(sealed bytea, plain text) returns bigint
  language sql immutable parallel safe
  return (coalesce(octet_length(sealed) - 37, 0) + coalesce(octet_length(plain), 0))::bigint;

create function memory_bytes(key text, sealed bytea, plain text, labels text[]) returns bigint
  language sql immutable parallel safe
  return octet_length(key) + value_bytes(sealed, plain) + octet_length(array_to_string(labels, ' '));

create or replace function memory_is_counted() returns trigger language plpgsql as $$
declare
  moved bigint := 0;
begin
  if tg_op <> 'DELETE' then moved := moved + memory_bytes(new.key, new.value_sealed, new.value, new.labels); end if;
  if tg_op <> 'INSERT' then moved := moved - memory_bytes(old.key, old.value_sealed, old.value, old.labels); end if;
  -- A value that is sealed anew keeps its size, and must not wait for those who write others.
  if moved = 0 then return null; end if;
  insert into memory_usage as u (organization_id, bytes)
    values (case when tg_op = 'DELETE' then old.organization_id else new.organization_id end, moved)
    on conflict (organization_id) do update set bytes = u.bytes + moved;
  return null;
end $$;

${recounted.map(countRows).join('\n')}
create or replace ${recountFunction(countedSealed)}
drop function memory_bytes(text, text, text[]);
`
