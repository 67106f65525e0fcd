/** Who may invite strangers, and how often. */
export const strangers = `
-- Whether the person has an account only because somebody invited them (SIGN_UP=invited).
alter table users add column invited boolean not null default false;
-- Whether the invited person shared no organization with the inviter. Rows are never deleted, so nobody can reset the count.
alter table invitations add column to_stranger boolean not null default false;
create index invitations_to_strangers on invitations (invited_by, created_at) where to_stranger;
`
