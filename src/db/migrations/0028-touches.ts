/** Whether a rule surely stays is asked while decisions wait, so nobody opens the changes that wait. */
export const touches = `
-- Ids of what a change would change. Null for every other kind, and for changes from before.
alter table approvals add column touches text[];
`
