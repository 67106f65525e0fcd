/**
 * Stores the connection through which a call was sent. If the outcome of the call is unknown, the service looks for the
 * call or repeats it. For this, the service uses no other connection.
 */
export const keyedCalls = `
-- The connection and its address through which the call was sent; null: unknown, or nothing was sent.
alter table effects add column sent_with text;
`
