/** A terminal that waits until a person signs it in. It has the key already, which is worth nothing until then. */
export const terminalLogins = `
create table terminal_logins (
  -- SHA-256 of the code that a person compares.
  code_hash text primary key,
  -- The hash of the key, and its last characters.
  key_hash text not null unique,
  last4 text not null,
  -- What the terminal says of itself.
  machine text not null,
  -- The address that the request came from.
  address text not null,
  status text not null default 'open' check (status in ('open', 'approved', 'denied')),
  -- The person's key, once they have signed the terminal in.
  key_id text references api_keys on delete cascade,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  check ((status = 'approved') = (key_id is not null))
);
create index terminal_logins_by_end on terminal_logins (expires_at);
create index terminal_logins_by_address on terminal_logins (address);
comment on table terminal_logins is 'terminals that wait to be signed in';
`
