/**
 * Slack accounts that members claim as theirs. The service sends a code to the account. If the member types in this
 * code, the account is linked. The rows are deleted together with the membership.
 */
export const slackClaims = `
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
alter table notifications drop constraint notifications_kind_check;
alter table notifications add constraint notifications_kind_check check (kind in ('approval', 'call', 'run', 'claim'));
`
