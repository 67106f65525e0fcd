/**
 * The hash of an agent's call also covers the folder of a shell. The client's report of a finished call does not name
 * this folder, so the report is matched by `input_hash`, which covers the tool and its arguments alone. It is null where
 * `params_hash` covers nothing else.
 */
export const foldersOfCalls = `
alter table decisions add column input_hash text;
drop index decisions_of_call;
create index decisions_of_call on decisions (session_id, (coalesce(input_hash, params_hash)))
  where session_id is not null;
`
