/**
 * Stores how a sign-in session was opened, and when an API key was confirmed with a second factor. An older session
 * counts as opened without a second factor. An older key counts as not confirmed.
 */
export const secondFactor = `
alter table auth_sessions add column opened_with text not null default 'unrecorded'
  check (opened_with in ('unrecorded', 'password', 'password+totp', 'password+backup_code'));
alter table api_keys add column factor_confirmed_at timestamptz;

-- Enrolling ends every session in the statement that enrols: the sign-in library then opens one for the person who enrolled.
-- The code was right by then, so the factor is proven too: a crash right after this leaves one that signs in.
-- A factor that is given up proves nothing any more: sessions that it opened count as opened with the password.
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

-- Another session that was enrolling at the same moment must not put its own key in the place of the proven one.
create function keep_proven_factor() returns trigger language plpgsql as $$
begin
  raise exception 'a proven second factor is not replaced: it is given up first';
end $$;
create trigger auth_two_factors_proven before update on auth_two_factors for each row
  when (old.verified and (not new.verified or new.secret <> old.secret)) execute function keep_proven_factor();
`
