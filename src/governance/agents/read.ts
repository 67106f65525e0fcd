import { sql, type ExpressionBuilder, type RawBuilder, type Selectable } from 'kysely'
import { newestSessionIds } from '../../db/queries/agents.ts'
import type { Database, Db } from '../../db/schema/index.ts'
import type { AgentSessionsTable, SessionStatus } from '../../db/schema/agents.ts'
import type { LabelSource } from '../../db/schema/runs.ts'
import { isUnclassed, type ExternalTools } from '../../policy/external-tools.ts'
import { readSettings } from '../../policy/settings.ts'
import type { Caller } from '../access/identity.ts'
import { organizationsOf } from '../access/recheck.ts'
import { hasRole } from '../access/scopes.ts'
import { notFound } from '../errors.ts'
import { idAfter, readPage, type Page, type PageRequest } from '../page.ts'

export interface AgentSessionView {
  readonly id: string
  readonly session_id: string
  readonly session_run_id: string
  readonly agent: { readonly name: string; readonly kind: string }
  readonly organization_id: string
  readonly user_id: string
  /** The current address; null if the account was deleted. */
  readonly user_email: string | null
  readonly status: SessionStatus
  readonly labels: readonly string[]
  readonly label_sources: readonly LabelSource[]
  /** Nobody has classed them (`isUnclassed`). At most `mostUnknownTools`. */
  readonly unclassed_tools: readonly string[]
  /** Files of the session that make a later command a script. `*` stands for any. */
  readonly written_files: readonly string[]
  readonly decisions: { readonly allow: number; readonly deny: number; readonly require_approval: number }
  /** No decision had allowed them. Each one raised an alert, except over the storage limit. */
  readonly unapproved_calls: number
  readonly started_at: string
  readonly last_seen_at: string
  readonly ended_at: string | null
  readonly revoked_by: string | null
  readonly revoked_by_email: string | null
  readonly revoke_reason: string | null
}

export interface SessionFilters {
  readonly status?: SessionStatus | undefined
  readonly user_id?: string | undefined
  readonly session_id?: string | undefined
}

/** SQL: false if the member `m` may not see the session. Admins see all; the routes refuse viewers by their role. */
export const sessionSeen = (id: string): RawBuilder<boolean> => sql`exists (
  select from agent_sessions where id = ${id} and (user_id = m.user_id or m.role <> 'member'))`

type Seen = Pick<Parameters<typeof newestSessionIds>[0], 'organizationIds' | 'own'>

/** Which sessions the caller sees: of the named organization, or of all in which they are a member. */
export async function sessionsSeenBy(db: Db, caller: Caller, isNamed: boolean): Promise<Seen> {
  const { organizationId, userId } = caller
  const [all, some] = isNamed
    ? [hasRole(caller.role, 'admin') ? [organizationId] : [], [organizationId]]
    : [await organizationsOf(db, caller, 'admin'), await organizationsOf(db, caller, caller.needs.role)]
  return { organizationIds: all, own: { userId, organizationIds: some.filter((id) => !all.includes(id)) } }
}

/** The newest first. */
export async function listSessions(
  db: Db,
  seen: Seen,
  filters: SessionFilters,
  page: PageRequest,
): Promise<Page<AgentSessionView>> {
  const after = idAfter('session', page)
  const query = sessionColumns(db).where(
    'id',
    'in',
    newestSessionIds({ ...seen, filters, after, most: page.limit + 1 }),
  )
  const read = await readPage(db, query, 'session', page)
  const told = await toldIn(db, read.data)
  return { ...read, data: read.data.map((row) => sessionView(row, told)) }
}

/** Throws `not_found` also for a session of another organization. */
export async function readSession(db: Db, organizationId: string, id: string): Promise<AgentSessionView> {
  const row = await sessionColumns(db)
    .where('id', '=', id)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('agent session', id)
  return sessionView(row, await toldIn(db, [row]))
}

export const emailOf = (
  eb: ExpressionBuilder<Database, 'agent_sessions'>,
  column: 'user_id' | 'revoked_by',
) => eb.selectFrom('users').select('users.email').whereRef('users.id', '=', `agent_sessions.${column}`)

const sessionColumns = (db: Db) =>
  db
    .selectFrom('agent_sessions')
    .selectAll()
    .select((eb) => [
      emailOf(eb, 'user_id').as('user_email'),
      emailOf(eb, 'revoked_by').as('revoked_by_email'),
    ])

type Row = Selectable<AgentSessionsTable> & {
  readonly user_email: string | null
  readonly revoked_by_email: string | null
}

/** Only for organizations that have an unknown tool in one of these sessions. */
async function toldIn(db: Db, rows: readonly Row[]): Promise<ReadonlyMap<string, ExternalTools>> {
  const ids = rows.flatMap((row) => (row.unknown_tools.length === 0 ? [] : [row.organization_id]))
  if (ids.length === 0) return new Map()
  const found = await db
    .selectFrom('organizations')
    .select(['id', 'settings'])
    .where('id', 'in', [...new Set(ids)])
    .execute()
  return new Map(found.map(({ id, settings }) => [id, readSettings(settings).external_tools]))
}

function sessionView(row: Row, told: ReadonlyMap<string, ExternalTools>): AgentSessionView {
  const setting = told.get(row.organization_id) ?? {}
  return {
    id: row.id,
    session_id: row.session_id,
    session_run_id: row.run_id,
    agent: { name: row.agent_name, kind: row.agent_kind },
    organization_id: row.organization_id,
    user_id: row.user_id,
    user_email: row.user_email,
    status: row.status,
    labels: row.labels,
    label_sources: row.label_sources,
    unclassed_tools: row.unknown_tools.filter((tool) => isUnclassed(setting, tool, 'agents')),
    written_files: row.written.map((entry) => entry.slice(entry.indexOf(':') + 1) || '*'),
    decisions: { allow: row.allowed, deny: row.denied, require_approval: row.held },
    unapproved_calls: row.unapproved,
    started_at: row.started_at.toISOString(),
    last_seen_at: row.last_seen_at.toISOString(),
    ended_at: row.ended_at?.toISOString() ?? null,
    revoked_by: row.revoked_by,
    revoked_by_email: row.revoked_by_email,
    revoke_reason: row.revoke_reason,
  }
}
