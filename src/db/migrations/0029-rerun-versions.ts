/** The version with which a run is made again is fixed when it is asked for: nobody who saves another one later gives it other steps. */
export const rerunVersions = `
alter table rerun_items add column version integer;
update rerun_items i
set version = case when q.options->>'version' = 'latest' then w.current_version else r.workflow_version end
from reruns q, runs r join workflows w on w.id = r.workflow_id
where q.id = i.rerun_id and r.id = i.run_id;
alter table rerun_items alter column version set not null;
create index rerun_items_of_runs on rerun_items (run_id) where state = 'waiting';
`
