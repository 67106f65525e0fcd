import { recountFunction } from './0022-storage.ts'
import { countedWithWebhooks } from './0051-webhooks.ts'
import { countRows, type CountedTable } from './count-rows.ts'

const more: Readonly<Record<string, string>> = {
  workflow_versions: 'octet_length(t.authors::text) + octet_length(t.step_authors::text)',
  runs: 'octet_length(t.authors::text)',
  approvals: 'octet_length(t.authors::text)',
}

const recounted: readonly CountedTable[] = countedWithWebhooks.flatMap((table) => {
  const bytes = more[table.name]
  return bytes === undefined ? [] : [{ ...table, bytes: `${table.bytes} + ${bytes}` }]
})

/** From this version on, triggers count the stored bytes of these tables. */
export const countedWithAuthors: readonly CountedTable[] = countedWithWebhooks.map(
  (table) => recounted.find(({ name }) => name === table.name) ?? table,
)

/**
 * The people who wrote a version, with the role that each of them had when they saved their text. A run keeps the ids of
 * its version's authors, and each of its steps keeps the roles of the authors of this step, because every call and every
 * approval of the run needs them. `changed_in_version` is the version that the requester had not run before, and that
 * another person saved.
 */
export const authors = `
alter table workflow_versions
  add column authors jsonb not null default '[]',
  add column step_authors jsonb not null default '[]';
update workflow_versions v set authors = jsonb_build_array(jsonb_build_object('user_id', v.deployed_by,
  'role', coalesce((select m.role from memberships m join workflows w on w.id = v.workflow_id
                    where m.organization_id = w.organization_id and m.user_id = v.deployed_by), 'member')));
alter table workflows add column protected boolean not null default false;
alter table runs
  add column authors text[] not null default '{}',
  add column changed_in_version integer;
alter table run_steps add column author_roles text[] not null default '{}';
alter table approvals add column authors text[] not null default '{}';
update runs r set authors = array[v.deployed_by] from workflow_versions v
  where v.workflow_id = r.workflow_id and v.version = r.workflow_version and r.finished_at is null;
update run_steps s set author_roles = array[v.authors->0->>'role'] from runs r join workflow_versions v
  on v.workflow_id = r.workflow_id and v.version = r.workflow_version
  where s.run_id = r.id and r.finished_at is null;
update approvals a set authors = r.authors from runs r where r.id = a.run_id and a.status in ('pending', 'approved');
-- Whether a person has run a version is asked at each start, and answered from the index alone.
drop index runs_idempotency;
create unique index runs_idempotency on runs (workflow_id, requested_by, idempotency_key) include (workflow_version);

${recounted.map(countRows).join('\n')}
create or replace ${recountFunction(countedWithAuthors, 'coalesce(sum(2048 + label_bytes), 0)')}
`
