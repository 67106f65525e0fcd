import { sql, type RawBuilder } from 'kysely'

/** Returns a CTE that inserts decisions. `decisions` is the JSON text of a list. */
export const insertNewDecisions = (decisions: string): RawBuilder<unknown> => sql`new_decisions as (
    insert into decisions (id, organization_id, run_id, seq, step_id, item_index, attempt, tool, side_effect, destination, verdict,
      rule_id, rule_name, matched_rules, reason, explanation, labels, label_sources, params_hash, approval_id,
      policy_version, decided_at, session_id, tool_use_id, requested_by, input_hash, bytes)
    select * from json_to_recordset(${decisions}::json) as r(id text, organization_id text,
      run_id text, seq int, step_id text, item_index int, attempt int, tool text, side_effect text, destination text, verdict text,
      rule_id text, rule_name text, matched_rules jsonb, reason text, explanation text, labels text[],
      label_sources jsonb, params_hash text, approval_id text, policy_version bigint, decided_at timestamptz,
      session_id text, tool_use_id text, requested_by text, input_hash text, bytes int)
  )`
