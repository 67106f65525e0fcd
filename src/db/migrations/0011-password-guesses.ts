/**
 * Counts wrong passwords. The count is a level, which each wrong password raises and which falls with time. A key is
 * stored as a hash, because strangers choose its text.
 */
export const passwordGuesses = `
create table password_guesses (
  key text primary key,
  level double precision not null,
  at timestamptz not null
);
create index password_guesses_by_time on password_guesses (at);
`
