/** Sign-in with the provider of an organization (OpenID Connect). */
export const signInProviders = `
create table sign_in_providers (
  organization_id text primary key references organizations,
  issuer text not null,
  client_id text not null,
  client_secret_sealed bytea not null,
  secret_version text not null,
  groups_claim text,
  -- Roles by the names of the provider's groups. If it is not empty, every sign-in sets the role.
  role_map jsonb not null,
  -- The role of a person whose groups give none. Null: no role.
  default_role text check (default_role in ('viewer', 'member', 'admin')),
  -- The owner says that the provider asks everybody for a second factor.
  checks_factor boolean not null,
  created_at timestamptz not null,
  updated_at timestamptz not null
);
comment on table sign_in_providers is 'The provider with which the people of an organization sign in.';

-- Only a proven domain counts, and it is proven for one organization.
create table sign_in_domains (
  organization_id text not null references sign_in_providers on delete cascade,
  domain text not null,
  -- A random text that the owner puts into DNS.
  proof text not null,
  proven_at timestamptz,
  proven_by text check (proven_by in ('dns', 'operator')),
  primary key (organization_id, domain),
  check ((proven_at is null) = (proven_by is null))
);
create unique index sign_in_domains_proven on sign_in_domains (domain) where proven_at is not null;
comment on table sign_in_domains is 'Mail domains whose people sign in with the provider of an organization.';

-- The person is the subject at the issuer, whatever the address there becomes. A person has one in an organization. The
-- row stays when the person leaves, so that the same subject never becomes another person.
create table sign_in_identities (
  organization_id text not null references sign_in_providers on delete cascade,
  issuer text not null,
  subject text not null,
  user_id text not null references users,
  linked_at timestamptz not null,
  primary key (organization_id, issuer, subject),
  unique (organization_id, user_id)
);
comment on table sign_in_identities is 'Who a subject of a provider is.';

-- Sign-ins that wait for the answer of the provider. The verifier and the nonce come from the state, which only the
-- browser has.
create table sign_in_attempts (
  state_hash text primary key,
  organization_id text not null references sign_in_providers on delete cascade,
  issuer text not null,
  client_id text not null,
  return_to text not null,
  expires_at timestamptz not null
);
create index sign_in_attempts_expired on sign_in_attempts (expires_at);
comment on table sign_in_attempts is 'Sign-ins that wait for the answer of a provider.';

-- A session that a provider has opened acts only in that organization.
alter table auth_sessions
  add column provider_organization text references organizations,
  add column provider_subject text,
  add column provider_session text,
  drop constraint auth_sessions_opened_with_check,
  add constraint auth_sessions_opened_with_check check (opened_with in
    ('unrecorded', 'password', 'password+totp', 'password+backup_code', 'provider', 'provider+factor')),
  add check ((provider_organization is null) = (opened_with not in ('provider', 'provider+factor')));
create index auth_sessions_provider on auth_sessions (provider_organization, provider_subject)
  where provider_organization is not null;

-- A key that such a session made, or a key of such a key, acts only in its own organization.
alter table api_keys add column bound boolean not null default false;

create or replace function note_session() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    -- A password without its second factor opens a session and closes it before anybody has it: nobody signed in.
    delete from account_events where session_id = old.id and type = 'session.started';
    if found then
      delete from account_events where session_id = old.id and type = 'session.beside_provider';
    elsif old.provider_organization is not null then
      insert into account_events (organization_id, user_id, type, session_id, ip_address)
      values (old.provider_organization, old.user_id, 'session.ended', old.id, old.ip_address);
    else
      perform note_account_event(old.user_id, 'session.ended', old.id, old.ip_address, false);
    end if;
  elsif new.provider_organization is not null then
    insert into account_events (organization_id, user_id, type, session_id, ip_address)
    values (new.provider_organization, new.user_id, 'session.started', new.id, new.ip_address);
  else
    perform note_account_event(new.user_id, 'session.started', new.id, new.ip_address, false);
    -- An owner who signs in past the provider that the organization requires.
    insert into account_events (organization_id, user_id, type, session_id, ip_address)
    select o.id, new.user_id, 'session.beside_provider', new.id, new.ip_address
    from memberships m join organizations o on o.id = m.organization_id
    where m.user_id = new.user_id and m.role = 'owner'
      and coalesce((o.settings->>'require_sso')::boolean, false)
      and new.opened_with not in ('unrecorded', 'password');
  end if;
  return null;
end $$;
`
