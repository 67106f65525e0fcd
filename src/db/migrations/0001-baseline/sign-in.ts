/**
 * Tables of the sign-in library (src/api/auth-options.ts maps the names of their columns), and the account events that
 * are not in the audit log yet.
 */
export const signIn = `
create table auth_accounts (
  id text primary key,
  account_id text not null,
  provider_id text not null,
  user_id text not null references users,
  password text,
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamptz,
  refresh_token_expires_at timestamptz,
  scope text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (provider_id, account_id)
);
create index auth_accounts_user on auth_accounts (user_id);

create table auth_sessions (
  id text primary key,
  token text not null unique,
  user_id text not null references users,
  expires_at timestamptz not null,
  ip_address text,
  user_agent text,
  opened_with text not null default 'unrecorded'
    check (opened_with in ('unrecorded', 'password', 'password+totp', 'password+backup_code')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index auth_sessions_user on auth_sessions (user_id);

create table auth_verifications (
  id text primary key,
  identifier text not null,
  value text not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index auth_verifications_identifier on auth_verifications (identifier);

-- The library encrypts the secret and the backup codes with SESSION_SECRET_KEY.
create table auth_two_factors (
  id text primary key,
  user_id text not null unique references users,
  secret text not null,
  backup_codes text not null,
  verified boolean not null default true,
  failed_verification_count integer not null default 0,
  locked_until timestamptz
);

-- An authenticator's code can be used once (src/governance/people/used-codes.ts).
create table auth_used_codes (
  user_id text not null references users,
  code_hash text not null,
  at timestamptz not null,
  primary key (user_id, code_hash)
);
create index auth_used_codes_by_time on auth_used_codes (at);

create table auth_rate_limits (
  id text primary key,
  key text not null unique,
  count integer not null,
  last_request bigint not null
);

-- Each wrong password raises level by 1, and level falls with time. The key is a hash, because strangers choose the
-- text that is hashed.
create table password_guesses (
  key text primary key,
  level double precision not null,
  at timestamptz not null
);
create index password_guesses_by_time on password_guesses (at);

-- A trigger inserts a row in the statement that changes the account. The transaction that appends the event to the
-- organization's chain deletes the row. The library knows nothing of chains, and a crash between the two loses nothing.
create table account_events (
  id bigint generated always as identity primary key,
  organization_id text not null references organizations,
  user_id text not null references users,
  type text not null,
  session_id text,
  api_key_id text,
  ip_address text,
  at timestamptz not null default clock_timestamp()
);

-- A change of how far a person can be trusted concerns all their organizations (everywhere). A session concerns only
-- one: the personal organization, or else the first that they joined.
create function note_account_event(person text, kind text, session text, ip text, everywhere boolean)
returns void language sql as $$
  insert into account_events (organization_id, user_id, type, session_id, ip_address)
  select o.id, person, kind, session, ip
  from memberships m join organizations o on o.id = m.organization_id
  where m.user_id = person
  order by o.personal desc, m.created_at, o.id
  limit case when everywhere then null else 1 end
$$;

create function note_session() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    perform note_account_event(new.user_id, 'session.started', new.id, new.ip_address, false);
  else
    -- A password without its second factor opens a session and closes it before anybody has it: nobody signed in.
    delete from account_events where session_id = old.id and type = 'session.started';
    if not found then
      perform note_account_event(old.user_id, 'session.ended', old.id, old.ip_address, false);
    end if;
  end if;
  return null;
end $$;
create trigger auth_sessions_noted after insert or delete on auth_sessions
  for each row execute function note_session();

create function note_password() returns trigger language plpgsql as $$
begin
  perform note_account_event(new.user_id, 'user.password_changed', null, null, true);
  return null;
end $$;
create trigger auth_accounts_made after insert on auth_accounts
  for each row when (new.password is not null) execute function note_password();
create trigger auth_accounts_changed after update on auth_accounts
  for each row when (new.password is distinct from old.password) execute function note_password();

create function note_user() returns trigger language plpgsql as $$
begin
  if new.two_factor_enabled <> old.two_factor_enabled then
    perform note_account_event(new.id,
      case when new.two_factor_enabled then 'mfa.enabled' else 'mfa.disabled' end, null, null, true);
  end if;
  if new.email_verified <> old.email_verified then
    perform note_account_event(new.id,
      case when new.email_verified then 'user.email_verified' else 'user.email_unverified' end, null, null, false);
  end if;
  return null;
end $$;
create trigger users_changed after update on users for each row execute function note_user();

create function note_backup_codes() returns trigger language plpgsql as $$
begin
  perform note_account_event(new.user_id, 'mfa.backup_codes_changed', null, null, false);
  return null;
end $$;
create trigger auth_two_factors_changed after update on auth_two_factors
  for each row when (old.verified and new.backup_codes <> old.backup_codes) execute function note_backup_codes();

-- The statement that enrols a second factor ends every session. The library then opens one for the person who enrolled.
-- The code was right by then, so the factor is proven too. Otherwise a crash right after this would leave a factor that
-- cannot be used. A factor that is given up proves nothing any more: sessions that it opened count as opened with the
-- password.
create function second_factor_changed() returns trigger language plpgsql as $$
begin
  if new.two_factor_enabled then
    delete from auth_sessions where user_id = new.id;
    update auth_two_factors set verified = true where user_id = new.id;
  else
    update auth_sessions set opened_with = 'password'
    where user_id = new.id and opened_with in ('password+totp', 'password+backup_code');
  end if;
  return null;
end $$;
create trigger users_second_factor_changed after update on users for each row
  when (new.two_factor_enabled <> old.two_factor_enabled) execute function second_factor_changed();

-- Another session that was enrolling at the same moment must not replace the key that is proven.
create function keep_proven_factor() returns trigger language plpgsql as $$
begin
  raise exception 'a proven second factor is not replaced: it is given up first';
end $$;
create trigger auth_two_factors_proven before update on auth_two_factors for each row
  when (old.verified and (not new.verified or new.secret <> old.secret)) execute function keep_proven_factor();

-- The library deletes the sessions before it changes the password. So this trigger deletes them again, while the row of
-- the password is locked. A sign-in reads that row with a lock after it has inserted its session
-- (src/governance/access/password-in-use.ts). If it reads before the change, this deletion sees its session. If it reads
-- after the change, it sees the new password and ends its session itself.
create function password_changed() returns trigger language plpgsql as $$
begin
  delete from auth_sessions where user_id = new.user_id;
  delete from auth_verifications where value = new.user_id;
  return null;
end $$;
create trigger auth_accounts_password_changed after update on auth_accounts for each row
  when (new.password is distinct from old.password) execute function password_changed();
`
