/** A call whose service knows its key is sent again through the same connection only. */
export const keyedCalls = `
-- The connection through which the call was sent, if its service takes a key of the call.
alter table effects add column sent_with text;
`
