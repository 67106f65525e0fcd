/** By itself, because 0030 locks the table against reading. */
export const fillVersionTools = String.raw`
-- PostgreSQL reads no JSON with \u0000. The names of tools have no such sign, so another one can stand in its place.
update workflow_versions set tools = array(
  select distinct step ->> 'tool' from json_array_elements(replace(definition, '\u0000', '\u0001')::json -> 'steps') step
  where step ->> 'tool' is not null order by 1)
where tools is null;
`
