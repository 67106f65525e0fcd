/**
 * If a person proves a mail address, the API keys and sign-in sessions of this person end. The audit log records this
 * like all account events. A request that is only about the caller belongs to no organization (src/api/idempotent.ts).
 * So the idempotency keys lose their foreign key to the organization.
 */
export const provenPeople = `
alter table account_events add column api_key_id text;
alter table idempotency_keys drop constraint idempotency_keys_organization_id_fkey;
-- A person who belongs to no organization has a window too, by their own id.
alter table request_windows drop constraint request_windows_organization_id_fkey;
-- An authenticator's code is good once (src/governance/people/used-codes.ts).
create table auth_used_codes (
  user_id text not null references users,
  code_hash text not null,
  at timestamptz not null,
  primary key (user_id, code_hash)
);
create index auth_used_codes_by_time on auth_used_codes (at);
-- When it was mailed, for how many mails one person may cause.
alter table invitations add column mailed_at timestamptz;
create index invitations_mailed on invitations (invited_by, mailed_at) where mailed_at is not null;
-- Devices that skipped the second factor: they are not offered any more.
delete from auth_verifications where identifier like 'trust-device-%';
`
