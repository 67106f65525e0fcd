/** Stores the Slack account of a member in the row of the membership. So both are deleted together. */
export const slackAccounts = `
alter table memberships
  add column slack_account text check (slack_account ~ '^[UW][A-Z0-9]{7,20}$'),
  add column slack_linked_at timestamptz,
  add check ((slack_account is null) = (slack_linked_at is null));
create unique index memberships_slack on memberships (organization_id, slack_account)
  where slack_account is not null;
`
