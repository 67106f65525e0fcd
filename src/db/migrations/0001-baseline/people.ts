/** People, organizations, and what people may do in an organization. */
export const people = `
create table users (
  id text primary key,
  email text not null,
  email_verified boolean not null default false,
  name text not null default '',
  image text,
  two_factor_enabled boolean not null default false,
  -- Whether the person has an account only because somebody invited them (SIGN_UP=invited).
  invited boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index users_email on users (lower(email));

create table organizations (
  id text primary key,
  name text not null,
  personal boolean not null default false,
  -- Unique, so that a crash during a sign-up cannot leave a person with two personal organizations.
  personal_of text unique references users,
  plan text not null default 'free' check (plan in ('free', 'pro', 'enterprise')),
  settings jsonb not null default '{}',
  quota_overrides jsonb not null default '{}',
  task_queue text,
  -- The service counts the organizations that a person has created. Null if an operator created it, or it is personal.
  created_by text references users,
  created_at timestamptz not null default now()
);
create index organizations_created_by on organizations (created_by) where created_by is not null;

-- A row lets an organization use the installation's folder of files (file_read) or its mail server (mail_send). Only an
-- organization that an operator created gets rows by itself.
create table installation_connections (
  organization_id text not null references organizations,
  tool text not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (organization_id, tool)
);

-- A person who leaves an organization loses the row. There is no other way not to be a member.
create table memberships (
  organization_id text not null references organizations,
  user_id text not null references users,
  role text not null check (role in ('viewer', 'member', 'admin', 'owner')),
  created_at timestamptz not null default now(),
  -- The Slack account is in this row, so that it is deleted together with the membership.
  slack_account text check (slack_account ~ '^[UW][A-Z0-9]{7,20}$'),
  slack_linked_at timestamptz,
  primary key (organization_id, user_id),
  check ((slack_account is null) = (slack_linked_at is null))
);
create unique index memberships_slack on memberships (organization_id, slack_account)
  where slack_account is not null;

-- Slack accounts that members claim as theirs. The service sends a code to the account, and the member types it in.
create table slack_claims (
  -- The id of the message that brings the code.
  id text primary key,
  organization_id text not null,
  user_id text not null,
  slack_account text not null check (slack_account ~ '^[UW][A-Z0-9]{7,20}$'),
  code text not null check (code ~ '^[0-9]{8}$'),
  wrong_codes integer not null default 0,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  -- Null while the code may be typed in.
  ended text check (ended in ('linked', 'replaced')),
  foreign key (organization_id, user_id) references memberships (organization_id, user_id) on delete cascade
);
create index slack_claims_of_person on slack_claims (organization_id, user_id, created_at);

-- Rows are never deleted, so nobody can reset the counts of mails and of invited strangers.
create table invitations (
  id text primary key,
  organization_id text not null references organizations,
  email text not null,
  role text not null check (role in ('viewer', 'member', 'admin', 'owner')),
  token_hash text not null unique,
  invited_by text not null references users,
  -- Whether the invited person shared no organization with the inviter.
  to_stranger boolean not null default false,
  mailed_at timestamptz,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  accepted_at timestamptz,
  accepted_by text references users,
  revoked_at timestamptz
);
create index invitations_listing on invitations (organization_id, id desc);
-- For sign-ups: finds the invitations to an address.
create index invitations_open on invitations (email) where accepted_at is null and revoked_at is null;
-- For the limits of mails and of invited strangers.
create index invitations_mailed on invitations (invited_by, mailed_at) where mailed_at is not null;
create index invitations_to_strangers on invitations (invited_by, created_at) where to_stranger;

-- A deleted key stays in the list and in the audit log.
create table api_keys (
  id text primary key,
  organization_id text not null references organizations,
  user_id text not null references users,
  name text not null,
  hash text not null unique,
  last4 text not null,
  scopes text[] not null,
  factor_confirmed_at timestamptz,
  created_at timestamptz not null default now(),
  created_by text references users,
  expires_at timestamptz,
  revoked_at timestamptz,
  deleted_at timestamptz,
  last_used_at timestamptz
);
create index api_keys_listing on api_keys (organization_id, id desc);
`
