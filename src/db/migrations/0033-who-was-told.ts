/** The list of messages is read for one recipient, and for what has not arrived. */
export const whoWasTold = `
create index notifications_to on notifications (organization_id, recipient, id desc);
create index notifications_not_sent on notifications (organization_id, state, id desc) where state in ('pending', 'failed');
`
