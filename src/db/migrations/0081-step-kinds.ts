/** Steps of a kind that calls no tool. Such a step may wait for a time. */
export const stepKinds = `
alter table run_steps add column kind text not null default 'tool';
alter table run_steps alter column tool drop not null;
alter table run_steps add constraint run_steps_tool check ((kind = 'tool') = (tool is not null));
-- Null: the step calls no tool.
alter table effects alter column tool drop not null;
-- The time at which a step that waits goes on; null: it waits for no time.
alter table effects add column until timestamptz;
`
