/**
 * A run can be made again from an ended one. The first run and all that were made from it, also from each other, are a
 * chain. What one of them has done, no other does again without a person's word.
 */
export const reruns = `
alter table runs
  -- The run from which this one was made, and the first run of the chain. Null: nobody made it again.
  add column rerun_of text references runs,
  add column chain text references runs,
  -- Ids of steps that take no outcome of an earlier run.
  add column steps_anew text[] not null default '{}',
  -- What becomes of a call that the chain has made already.
  add column on_repeat text check (on_repeat in ('hold', 'skip', 'allow')),
  -- Whether calls of earlier runs whose outcome nobody knows count as made; null if there are none.
  add column unknown_happened boolean,
  add check ((rerun_of is null) = (chain is null) and (rerun_of is null) = (on_repeat is null));
alter table approvals drop constraint approvals_kind_check;
alter table approvals add constraint approvals_kind_check
  check (kind in ('step', 'run', 'agent_call', 'change', 'ask', 'repeat'));
create index runs_chain on runs (chain) where chain is not null;
create index runs_reruns on runs (rerun_of) where rerun_of is not null;
alter table effects
  -- The run whose outcome this call took, without being made.
  add column reused_from text,
  -- The earlier call of the chain with the same parameters, as RUN/STEP/ITEM.
  add column repeats text;
create index effects_by_params on effects (params_hash) where params_hash is not null and tool is not null;
`
