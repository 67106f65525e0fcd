/** The keys that seal values, the memory of organizations, and uploaded files. */
export const values = `
create table data_keys (
  id text primary key check (id ~ '^[0-9a-f]{16}$'),
  -- The key with the highest generation seals new values.
  generation integer not null unique,
  -- Sealed with the installation's own key, DATA_ENCRYPTION_KEY.
  wrapped bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  -- When the last value with this key was gone. The row stays, because a backup can bring such values back.
  retired_at timestamptz
);

-- How many bytes a value had before it was sealed (src/governance/sealing/format.ts); 0 without a value.
create function value_bytes(sealed bytea) returns bigint
  language sql immutable parallel safe
  return coalesce(octet_length(sealed) - 37, 0)::bigint;

create function memory_bytes(key text, sealed bytea, labels text[]) returns bigint
  language sql immutable parallel safe
  return octet_length(key) + value_bytes(sealed) + octet_length(array_to_string(labels, ' '));

create sequence memory_revisions;
create table memory (
  organization_id text not null references organizations,
  key text not null,
  value_sealed bytea storage external,
  value_version text,
  labels text[] not null default '{}',
  updated_at timestamptz not null default now(),
  updated_by text not null references users,
  -- If a value is deleted, its labels stay (docs/decisions/0071). The row then has labels but no value.
  deleted_at timestamptz,
  -- Each write to a key gets a new revision, even if the key was deleted before. Sealing a value again is no write.
  revision bigint not null default nextval('memory_revisions'),
  primary key (organization_id, key),
  constraint memory_has_one_value check (deleted_at is not null or num_nulls(value_sealed, value_version) = 0)
);
create function memory_written() returns trigger language plpgsql as $$
begin
  new.revision := nextval('memory_revisions');
  return new;
end $$;
create trigger memory_written before update of updated_at on memory
  for each row execute function memory_written();

-- The bytes of the memory of each organization.
create table memory_usage (
  organization_id text primary key references organizations,
  bytes bigint not null
);
create function memory_is_counted() returns trigger language plpgsql as $$
declare
  moved bigint := 0;
begin
  if tg_op <> 'DELETE' then moved := moved + memory_bytes(new.key, new.value_sealed, new.labels); end if;
  if tg_op <> 'INSERT' then moved := moved - memory_bytes(old.key, old.value_sealed, old.labels); end if;
  -- A value that is sealed anew keeps its size, and must not wait for those who write others.
  if moved = 0 then return null; end if;
  insert into memory_usage as u (organization_id, bytes)
    values (case when tg_op = 'DELETE' then old.organization_id else new.organization_id end, moved)
    on conflict (organization_id) do update set bytes = u.bytes + moved;
  return null;
end $$;
create trigger memory_is_counted after insert or update or delete on memory
  for each row execute function memory_is_counted();

-- Uploaded files. The service stores the text and the table rows of a file, but not the file itself
-- (docs/decisions/0105).
create table files (
  id text primary key,
  organization_id text not null references organizations,
  name text not null,
  media_type text not null,
  -- size and sha256 are those of the file as it was sent.
  size integer not null,
  sha256 text not null,
  labels text[] not null,
  text_sealed bytea storage external not null,
  text_bytes integer not null,
  -- A JSON list of objects; null for a file that is no table, and for a table that is too large.
  rows_sealed bytea storage external,
  rows_bytes integer,
  created_at timestamptz not null default clock_timestamp(),
  created_by text not null references users,
  -- When a run last took it.
  last_used_at timestamptz,
  check ((rows_sealed is null) = (rows_bytes is null))
);
create index files_by_organization on files (organization_id, id);
create index files_by_use on files (coalesce(last_used_at, created_at));
`
