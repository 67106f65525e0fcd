/**
 * The code that shows that the service has written an audit entry (audit/entry-macs.ts). `chain_head` has the code of the
 * newest entry. Both columns may be null, because a null must be found and named, and not only refused.
 */
export const entryCodes = `
alter table audit_events add column mac text;
alter table chain_head add column mac text;
`
