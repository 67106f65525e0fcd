/** What mails of the service need: the reader's time zone, and what proves that a mail of an invitation was read. */
export const mailsAndLinks = `
-- Null until the person chooses one, or their browser names one at a sign-in: then UTC.
alter table users add column time_zone text check (length(time_zone) between 1 and 100);

-- The hash of what only the mail of an invitation has. Who invites sees the token, and must not prove another's address.
alter table invitations add column proof_hash text;

-- An admin who links an account of Slack sends a test message: the account is linked when it has arrived.
alter table slack_claims add column asked_by text references users;

-- Finds whether the newest message to a person has failed.
create index notifications_in_slack on notifications (organization_id, recipient, id desc) where channel = 'slack';
`
