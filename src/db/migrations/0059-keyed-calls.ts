/** A call that was sent is looked for, or sent again with its key, through the same connection only. */
export const keyedCalls = `
-- The connection and its address through which the call was sent; null: unknown, or nothing was sent.
alter table effects add column sent_with text;
`
