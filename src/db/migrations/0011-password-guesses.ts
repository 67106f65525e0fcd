/**
 * Counts wrong passwords. Each wrong password raises `level` by 1, and `level` falls with time. `key` is a hash,
 * because strangers choose the text that is hashed.
 */
export const passwordGuesses = `
create table password_guesses (
  key text primary key,
  level double precision not null,
  at timestamptz not null
);
create index password_guesses_by_time on password_guesses (at);
`
