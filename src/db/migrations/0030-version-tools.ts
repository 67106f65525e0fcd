/** The list of workflows warns of tools that do not work now. Reading them from each definition took a second for long ones. */
export const versionTools = `
-- Null: nobody has read them from the definition yet.
alter table workflow_versions add column tools text[];
`
