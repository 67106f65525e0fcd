/** The mail settings of an organization's members. A member without a row has the default settings. */
export const mailPreferences = `
create table mail_preferences (
  organization_id text not null references organizations,
  user_id text not null references users,
  mail boolean not null,
  -- A mail leaves if nobody has decided after so many seconds.
  delay_seconds integer not null check (delay_seconds between 0 and 86400),
  primary key (organization_id, user_id)
);
create index notifications_mail on notifications (next_attempt_at)
  where channel = 'mail' and state = 'pending' and id = message_id;
create index notifications_mailed on notifications (organization_id, sent_at) where channel = 'mail';
`
