import { sql, type RawBuilder } from 'kysely'

/**
 * The newest sessions that pass the filters, from the index of the list of each organization. With one condition for
 * all, PostgreSQL would often read the sessions of the whole installation until it has found enough; also with
 * `organization_id = o.id` in place of `between`, because then the index of the ids has the same order.
 * @param after only sessions before this id; null for the newest ones
 */
export const newestSessionIds = (given: {
  readonly organizationIds: readonly string[]
  readonly filters: Readonly<Partial<Record<'status' | 'user_id' | 'session_id', string | undefined>>>
  readonly after: string | null
  readonly most: number
}): RawBuilder<string> => {
  const { status = null, user_id: userId = null, session_id: sessionId = null } = given.filters
  const conditions = [
    ...(status === null ? [] : [sql`and s.status = ${status}`]),
    ...(userId === null ? [] : [sql`and s.user_id = ${userId}`]),
    ...(sessionId === null ? [] : [sql`and s.session_id = ${sessionId}`]),
    ...(given.after === null ? [] : [sql`and s.id < ${given.after}`]),
  ]
  return sql`(
  select newest.id
  from unnest(${[...given.organizationIds]}::text[]) as o (id)
  cross join lateral (
    select s.id from agent_sessions s
    where s.organization_id between o.id and o.id ${sql.join(conditions, sql` `)}
    order by s.organization_id, s.id desc limit ${given.most}) as newest
  order by newest.id desc limit ${given.most})`
}

/** CTE. The name, person and organization of a session never change. */
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
