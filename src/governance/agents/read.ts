import type { Selectable } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { AgentSessionsTable, SessionStatus } from '../../db/schema/agents.ts'
import type { LabelSource } from '../../db/schema/runs.ts'
import { notFound } from '../errors.ts'
import { readPage, viewPage, type Page, type PageRequest } from '../page.ts'

/** An agent session in the API's answers. */
export interface AgentSessionView {
  readonly id: string
  readonly session_id: string
  readonly session_run_id: string
  readonly agent: { readonly name: string; readonly kind: string }
  readonly organization_id: string
  readonly user_id: string
  readonly status: SessionStatus
  readonly labels: readonly string[]
  readonly label_sources: readonly LabelSource[]
  readonly decisions: { readonly allow: number; readonly deny: number; readonly require_approval: number }
  /** Calls that ran although no decision had allowed them. Each raised an alert. */
  readonly unapproved_calls: number
  readonly started_at: string
  readonly last_seen_at: string
  readonly ended_at: string | null
  readonly revoked_by: string | null
  readonly revoke_reason: string | null
}

export interface SessionFilters {
  readonly status?: SessionStatus | undefined
  readonly user_id?: string | undefined
  readonly session_id?: string | undefined
}

/** The organization's agent sessions, newest first. */
export async function listSessions(
  db: Db,
  organizationId: string,
  filters: SessionFilters,
  page: PageRequest,
): Promise<Page<AgentSessionView>> {
  let query = db.selectFrom('agent_sessions').selectAll().where('organization_id', '=', organizationId)
  for (const name of ['status', 'user_id', 'session_id'] as const) {
    const wanted = filters[name]
    if (wanted !== undefined) query = query.where(name, '=', wanted)
  }
  return viewPage(await readPage(db, query, 'id', page, (row) => row.id), sessionView)
}

/** Throws `not_found` also for a session of another organization. */
export async function readSession(db: Db, organizationId: string, id: string): Promise<AgentSessionView> {
  const row = await db
    .selectFrom('agent_sessions')
    .selectAll()
    .where('id', '=', id)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('agent session', id)
  return sessionView(row)
}

function sessionView(row: Selectable<AgentSessionsTable>): AgentSessionView {
  return {
    id: row.id,
    session_id: row.session_id,
    session_run_id: row.run_id,
    agent: { name: row.agent_name, kind: row.agent_kind },
    organization_id: row.organization_id,
    user_id: row.user_id,
    status: row.status,
    labels: row.labels,
    label_sources: row.label_sources,
    decisions: { allow: row.allowed, deny: row.denied, require_approval: row.held },
    unapproved_calls: row.unapproved,
    started_at: row.started_at.toISOString(),
    last_seen_at: row.last_seen_at.toISOString(),
    ended_at: row.ended_at?.toISOString() ?? null,
    revoked_by: row.revoked_by,
    revoke_reason: row.revoke_reason,
  }
}
