/** The list of workflows warns of tools that do not work now. Reading them from each definition took a second for long ones. */
export const versionTools = `
alter table workflow_versions add column tools text[] not null default '{}';
update workflow_versions set tools = array(
  select distinct step ->> 'tool' from json_array_elements(definition::json -> 'steps') step
  where step ->> 'tool' is not null order by 1);
alter table workflow_versions alter column tools drop default;
`
