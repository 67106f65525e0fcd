/** A changed password ends all sign-in sessions of the person, and all sign-ins that wait for a second factor. */
export const changedPasswords = `
-- The sign-in library deletes the sessions before it changes the password. So this trigger deletes them again, while the row
-- of the password is locked. A sign-in reads that row with a lock after it has inserted its session
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
