/** What a proof of the address ends is audited like all that happens to accounts. */
export const provenPeople = `
alter table account_events add column api_key_id text;
`
