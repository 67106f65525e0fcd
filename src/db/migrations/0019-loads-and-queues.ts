/**
 * `call_starts` counts how often a worker began to load the values of a call. An index finds the runs that are being
 * cancelled. An organization can have its own task queue. `default_task_queue` has one row with the task queue of all
 * other organizations.
 */
export const loadsAndQueues = `
create table call_starts (
  run_id text not null references runs,
  step_id text not null,
  item_index integer not null,
  starts integer not null default 1,
  started_at timestamptz not null default clock_timestamp(),
  primary key (run_id, step_id, item_index)
);
create index runs_cancelling on runs (cancel_requested_at) where cancel_requested_at is not null and finished_at is null;
alter table organizations add column task_queue text;
create table default_task_queue (
  single boolean primary key default true check (single),
  queue text not null
);
`
