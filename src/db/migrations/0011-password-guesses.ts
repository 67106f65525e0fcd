/** Wrong passwords, as a level that sinks with time (governance/people/guesses.ts). Keys are hashes, of strangers' words too. */
export const passwordGuesses = `
create table password_guesses (
  key text primary key,
  level double precision not null,
  at timestamptz not null
);
create index password_guesses_by_time on password_guesses (at);
`
