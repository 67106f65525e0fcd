/**
 * Service accounts: rows of `users` without sign-in. The triggers hold for every writer, also for the sign-in library, so
 * that no reset of a password, link or provider can sign an account in or give it a higher role.
 */
export const serviceAccounts = `
create table service_accounts (
  id text primary key references users,
  organization_id text not null references organizations,
  name text not null,
  created_by text not null references users,
  created_at timestamptz not null,
  -- A deleted account keeps its row: its runs and audit entries name it.
  deleted_at timestamptz
);
comment on table service_accounts is 'users that are programs: they have keys, and can neither sign in nor vote';
create index service_accounts_listing on service_accounts (organization_id, id desc) where deleted_at is null;
create unique index service_accounts_name on service_accounts (organization_id, name) where deleted_at is null;

create function refuse_sign_in() returns trigger language plpgsql as $$
begin
  if exists (select from service_accounts where id = new.user_id) then
    raise exception 'a service account cannot sign in';
  end if;
  return new;
end $$;
create trigger auth_accounts_of_people before insert or update on auth_accounts
  for each row execute function refuse_sign_in();
create trigger auth_sessions_of_people before insert or update of user_id on auth_sessions
  for each row execute function refuse_sign_in();
create trigger auth_two_factors_of_people before insert or update of user_id on auth_two_factors
  for each row execute function refuse_sign_in();

create function keep_service_account() returns trigger language plpgsql as $$
begin
  if exists (select from service_accounts where id = new.id) then
    raise exception 'the address and the second factor of a service account do not change';
  end if;
  return new;
end $$;
create trigger users_of_service before update on users for each row
  when (new.email <> old.email or new.two_factor_enabled <> old.two_factor_enabled
        or new.email_verified <> old.email_verified)
  execute function keep_service_account();

create function keep_service_membership() returns trigger language plpgsql as $$
begin
  if exists (select from service_accounts where id = new.user_id
             and (organization_id <> new.organization_id or new.role not in ('viewer', 'member')
                  or new.slack_account is not null)) then
    raise exception 'a service account is a viewer or member of one organization, without Slack';
  end if;
  return new;
end $$;
create trigger memberships_of_service before insert or update on memberships
  for each row execute function keep_service_membership();
`
