/**
 * Passkeys. `users.two_factor_enabled` says that a person has a second factor of any kind: an authenticator app or a
 * passkey. The triggers hold for every writer, also for the sign-in library, which knows only the app.
 */
export const passkeys = `
create table auth_passkeys (
  id text primary key,
  user_id text not null references users,
  -- As the authenticator names it, in base64url.
  credential_id text not null unique,
  public_key bytea not null,
  -- How often the authenticator has used it, as it says. 0 if it does not count.
  counter bigint not null,
  name text not null,
  created_at timestamptz not null,
  last_used_at timestamptz
);
create index auth_passkeys_user on auth_passkeys (user_id);
comment on table auth_passkeys is 'Passkeys with which people sign in, by public key.';
create trigger auth_passkeys_of_people before insert or update of user_id on auth_passkeys
  for each row execute function refuse_sign_in();

alter table auth_sessions
  drop constraint auth_sessions_opened_with_check,
  add constraint auth_sessions_opened_with_check check (opened_with in
    ('unrecorded', 'password', 'password+totp', 'password+backup_code', 'passkey', 'provider', 'provider+factor'));

-- Giving up the app leaves the passkeys.
create function keep_second_factor() returns trigger language plpgsql as $$
begin
  new.two_factor_enabled := exists (select from auth_passkeys where user_id = new.id);
  return new;
end $$;
create trigger users_second_factor_kept before update on users for each row
  when (old.two_factor_enabled and not new.two_factor_enabled) execute function keep_second_factor();

-- The app of a person whose first factor is a passkey is proven by its own first code. Before, anybody with the password
-- could have begun to add an app, and would know its secret and backup codes.
create or replace function second_factor_changed() returns trigger language plpgsql as $$
begin
  if new.two_factor_enabled then
    delete from auth_sessions where user_id = new.id;
    if exists (select from auth_passkeys where user_id = new.id) then
      delete from auth_two_factors where user_id = new.id and not verified;
    else
      update auth_two_factors set verified = true where user_id = new.id;
    end if;
  else
    update auth_sessions set opened_with = 'password'
    where user_id = new.id and opened_with in ('password+totp', 'password+backup_code', 'passkey');
  end if;
  return null;
end $$;

create function count_factors() returns trigger language plpgsql as $$
declare
  person text := case when tg_op = 'DELETE' then old.user_id else new.user_id end;
  has boolean;
begin
  -- Two factors that are given up at once must see each other.
  perform from users where id = person for no key update;
  has := exists (select from auth_passkeys where user_id = person)
    or exists (select from auth_two_factors where user_id = person and verified);
  update users set two_factor_enabled = has where id = person and two_factor_enabled <> has;
  return null;
end $$;
create trigger auth_passkeys_counted after insert or delete on auth_passkeys
  for each row execute function count_factors();
create trigger auth_two_factors_counted after delete on auth_two_factors
  for each row execute function count_factors();

-- An app that is given up proves nothing any more, also if passkeys are left.
create function app_given_up() returns trigger language plpgsql as $$
begin
  update auth_sessions set opened_with = 'password'
  where user_id = old.user_id and opened_with in ('password+totp', 'password+backup_code');
  return null;
end $$;
create trigger auth_two_factors_given_up after delete on auth_two_factors
  for each row when (old.verified) execute function app_given_up();

create function note_passkey() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    perform note_account_event(new.user_id, 'passkey.added', null, null, true);
  elsif tg_op = 'DELETE' then
    perform note_account_event(old.user_id, 'passkey.removed', null, null, true);
  else
    perform note_account_event(new.user_id, 'passkey.renamed', null, null, false);
  end if;
  return null;
end $$;
create trigger auth_passkeys_noted after insert or delete on auth_passkeys
  for each row execute function note_passkey();
create trigger auth_passkeys_renamed after update on auth_passkeys
  for each row when (new.name <> old.name) execute function note_passkey();
`
