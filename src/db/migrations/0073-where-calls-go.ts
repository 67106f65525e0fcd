/** The host to which a decided call goes. Null: the call stays here, or an agent makes it. */
export const whereCallsGo = `
alter table decisions add column destination text;
alter table approvals add column destination text;
`
