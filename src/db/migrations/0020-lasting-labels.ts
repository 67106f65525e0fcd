/**
 * If a value of the memory is deleted, its labels stay (docs/decisions/0071). The row then has labels but no value.
 * Labels count towards the bytes of the organization's memory. A run stores the labels of its inputs.
 */
export const lastingLabels = `
alter table memory add column deleted_at timestamptz;
alter table runs add column input_labels jsonb not null default '{}';

create function memory_bytes(key text, value text, labels text[]) returns bigint language sql immutable
  return octet_length(key) + octet_length(value) + octet_length(array_to_string(labels, ' '));
create or replace function memory_is_counted() returns trigger language plpgsql as $$
declare
  moved bigint := 0;
begin
  if tg_op <> 'DELETE' then moved := moved + memory_bytes(new.key, new.value, new.labels); end if;
  if tg_op <> 'INSERT' then moved := moved - memory_bytes(old.key, old.value, old.labels); end if;
  insert into memory_usage as u (organization_id, bytes)
    values (case when tg_op = 'DELETE' then old.organization_id else new.organization_id end, moved)
    on conflict (organization_id) do update set bytes = u.bytes + moved;
  return null;
end $$;
update memory_usage u set bytes = coalesce(
  (select sum(memory_bytes(key, value, labels)) from memory m where m.organization_id = u.organization_id), 0);
`
