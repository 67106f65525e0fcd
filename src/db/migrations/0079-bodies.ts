/**
 * Counts how often the body of a call's tool began. `attempt` counts decisions, also those that a worker did not use.
 */
export const bodies = `
alter table effects
  add column bodies integer not null default 0,
  -- Whether \`bodies\` already has the body of the present attempt.
  add column body_counted boolean not null default false;
update effects set bodies = attempt, body_counted = true where attempt > 0;
`
