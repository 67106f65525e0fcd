import { sql, type RawBuilder } from 'kysely'

/**
 * Returns a CTE that saves new and changed agent sessions. The name, person and organization of a session never change.
 */
export const writeAgentSessions = (
  organizationId: string,
  sessions: readonly object[],
): RawBuilder<unknown> => sql`written_sessions as (
    insert into agent_sessions as s (organization_id, id, user_id, session_id, run_id, agent_name, agent_kind, status,
      labels, label_sources, unknown_tools, label_bytes, decision_seq, allowed, held, denied, started_at, last_seen_at, ended_at)
    select ${organizationId}, r.id, r.user_id, r.session_id, r.run_id, r.agent_name, r.agent_kind, r.status, r.labels,
      r.label_sources, r.unknown_tools, r.label_bytes, r.decision_seq, r.allowed, r.held, r.denied, r.started_at, r.last_seen_at, r.ended_at
    from json_to_recordset(${JSON.stringify(sessions)}::json) as r(id text, user_id text, session_id text, run_id text,
      agent_name text, agent_kind text, status text, labels text[], label_sources jsonb, unknown_tools text[], label_bytes int, decision_seq int, allowed int,
      held int, denied int, started_at timestamptz, last_seen_at timestamptz, ended_at timestamptz)
    on conflict (id) do update set status = excluded.status, labels = excluded.labels,
      label_sources = excluded.label_sources, unknown_tools = excluded.unknown_tools, label_bytes = excluded.label_bytes, decision_seq = excluded.decision_seq, allowed = excluded.allowed,
      held = excluded.held, denied = excluded.denied, last_seen_at = excluded.last_seen_at, ended_at = excluded.ended_at
  )`
