import { recountFunction } from './0022-storage.ts'
import { countedWithFiles } from './0042-files.ts'
import { countRows, type CountedTable } from './count-rows.ts'

const recounted: readonly CountedTable[] = countedWithFiles
  .filter(({ name }) => name === 'approvals')
  .map((table) => ({
    ...table,
    bytes: `${table.bytes} + coalesce(octet_length(t.state_sealed), 0) + coalesce(octet_length(t.held_again), 0)`,
  }))

/** From this version on, triggers count the stored bytes of these tables. */
export const countedWithStates = countedWithFiles.map(
  (table) => recounted.find(({ name }) => name === table.name) ?? table,
)

/**
 * An approval is valid only for the state that its approvers saw. So the approval stores this state and its revision.
 * Each write to a key of the memory gets a new revision, even if the key was deleted before. If a stored value is
 * sealed again, this does not count as a write.
 */
export const approvedState = `
alter table approvals
  -- What the call changes, as it was read when the approval was made, and its revision; sealed.
  add column state_sealed bytea,
  -- The approval that this one replaces, and the reason in one sentence without values.
  add column supersedes_id text,
  add column held_again text,
  -- How often the state has changed under an approval of this call.
  add column state_changes integer not null default 0;
alter table approvals alter column state_sealed set storage external;

create sequence memory_revisions;
alter table memory add column revision bigint not null default nextval('memory_revisions');
create function memory_written() returns trigger language plpgsql as $$
begin
  new.revision := nextval('memory_revisions');
  return new;
end $$;
create trigger memory_written before update of updated_at on memory
  for each row execute function memory_written();

${recounted.map(countRows).join('\n')}
create or replace ${recountFunction(countedWithStates, 'coalesce(sum(2048 + label_bytes), 0)')}
`
