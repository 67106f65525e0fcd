import { sql, type RawBuilder } from 'kysely'

/** Returns a CTE that saves the state of runs. */
export const updateRuns = (rows: readonly object[]): RawBuilder<unknown> => sql`moved_runs as (
    update runs set status = r.status, status_reason = r.status_reason, decision_seq = r.decision_seq,
      stored_bytes = r.stored_bytes, nodes_executed = r.nodes_executed, nodes_failed = r.nodes_failed, started_at = r.started_at,
      slot = r.slot, cost = r.cost
    from json_to_recordset(${JSON.stringify(rows)}::json) as r(id text, status text,
      status_reason text, decision_seq int, stored_bytes bigint, nodes_executed int, nodes_failed int, started_at timestamptz,
      slot text, cost numeric)
    where runs.id = r.id
  )`
