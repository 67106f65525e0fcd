/**
 * Tables for people who sign in. Most of them are tables of the sign-in library, and src/api/auth-options.ts maps their
 * column names. `invitations` has the invitations. `account_events` has the account events that are not in the audit
 * log yet.
 */
export const people = `
alter table users
  add column email_verified boolean not null default false,
  add column image text,
  add column two_factor_enabled boolean not null default false,
  add column updated_at timestamptz not null default now();
-- Whoever is there by now was put there by an operator, who knew the address.
update users set email_verified = true;

-- At most one per person, whatever a crash in the middle of a sign-up left behind.
alter table organizations add column personal_of text unique references users;

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
insert into auth_accounts (id, account_id, provider_id, user_id, password)
select id, id, 'credential', id, password_hash from users where password_hash is not null;
alter table users drop column password_hash;

create table auth_sessions (
  id text primary key,
  token text not null unique,
  user_id text not null references users,
  expires_at timestamptz not null,
  ip_address text,
  user_agent text,
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

-- Secret and backup codes are encrypted by the library under SESSION_SECRET_KEY.
create table auth_two_factors (
  id text primary key,
  user_id text not null unique references users,
  secret text not null,
  backup_codes text not null,
  verified boolean not null default true,
  failed_verification_count integer not null default 0,
  locked_until timestamptz
);

create table auth_rate_limits (
  id text primary key,
  key text not null unique,
  count integer not null,
  last_request bigint not null
);

create table invitations (
  id text primary key,
  organization_id text not null references organizations,
  email text not null,
  role text not null check (role in ('viewer', 'member', 'admin', 'owner')),
  token_hash text not null unique,
  invited_by text not null references users,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  accepted_at timestamptz,
  accepted_by text references users,
  revoked_at timestamptz
);
create index invitations_listing on invitations (organization_id, id desc);

-- Written by triggers in the very statement that changed the account, and taken out by the transaction that appends it
-- to the organization's chain: the library knows nothing of chains, and a crash between the two loses nothing.
create table account_events (
  id bigint generated always as identity primary key,
  organization_id text not null references organizations,
  user_id text not null references users,
  type text not null,
  session_id text,
  ip_address text,
  at timestamptz not null default clock_timestamp()
);

-- What changes how far a person can be trusted concerns all their organizations; that they came and went concerns
-- their own: the personal one, else the first they joined.
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
`
