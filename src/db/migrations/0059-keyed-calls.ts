/**
 * Adds the connection through which a call was sent. If the outcome is unknown, the service looks for the call, or
 * sends it again, only through this connection.
 */
export const keyedCalls = `
-- The connection and its address through which the call was sent; null: unknown, or nothing was sent.
alter table effects add column sent_with text;
`
