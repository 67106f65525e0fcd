import { sql } from 'kysely'
import type { AgentSessionsTable, SessionStatus } from '../../db/schema/agents.ts'
import type { LabelSource } from '../../db/schema/runs.ts'
import type { Role, SideEffect, Verdict } from '../../policy/types.ts'
import type { ChainReader, ChainTx } from '../audit/chain-tx.ts'
import {
  approvalColumns,
  insertApprovals,
  insertDecisions,
  numbered,
  updateApprovals,
  type ApprovalRecord,
  type NewApproval,
  type NewDecision,
} from '../approvals/records.ts'

/** Identifies a call: person, client's session, hash and client's id. */
export interface CallKey {
  readonly userId: string
  readonly sessionId: string
  /** SHA-256 over `{tool, params}`, hex. */
  readonly paramsHash: string
  readonly toolUseId: string | null
  /** Id of the key or session that asks. */
  readonly by: string
}

export interface SessionRecord extends Pick<
  AgentSessionsTable,
  'id' | 'user_id' | 'session_id' | 'run_id' | 'agent_name' | 'agent_kind'
> {
  status: SessionStatus
  labels: string[]
  label_sources: LabelSource[]
  label_bytes: number
  decision_seq: number
  allowed: number
  held: number
  denied: number
  started_at: string
  last_seen_at: string
  ended_at: string | null
}

/** An earlier decision on a call with a client's id: a lost answer is given again. */
export interface PriorDecision {
  readonly id: string
  readonly session_id: string
  readonly tool_use_id: string
  readonly tool: string
  readonly side_effect: SideEffect
  readonly params_hash: string
  readonly verdict: Verdict
  readonly rule_name: string | null
  readonly reason: string
  readonly explanation: string
  readonly labels: string[]
  readonly approval_id: string | null
  readonly policy_version: number
  readonly decided_at: string
  /** The call has finished: a question with the same id is a new call. */
  readonly observed: boolean
}

const nameOf = (userId: string, sessionId: string): string => `${userId}\n${sessionId}`
const callOf = (sessionId: string, paramsHash: string): string => `${sessionId}\n${paramsHash}`

/** The rows that agents' calls of one batch share: one statement reads them, one writes them. */
export class AgentLedger {
  readonly roles = new Map<string, Role>()
  /** Ids of members whose address is confirmed. */
  readonly confirmed = new Set<string>()
  /** Ids of keys and sessions that may still ask. */
  readonly valid = new Set<string>()
  readonly approvals = new Map<string, ApprovalRecord>()
  readonly newApprovals: NewApproval[] = []
  readonly newDecisions: NewDecision[] = []
  readonly dirtyApprovals = new Set<ApprovalRecord>()
  readonly #sessions = new Map<string, SessionRecord>()
  readonly #byId = new Map<string, SessionRecord>()
  readonly #dirty = new Set<SessionRecord>()
  readonly #priors = new Map<string, PriorDecision[]>()
  readonly #ofCall = new Map<string, ApprovalRecord>()

  session(userId: string, sessionId: string): SessionRecord | undefined {
    return this.#sessions.get(nameOf(userId, sessionId))
  }

  sessionById(id: string): SessionRecord | undefined {
    return this.#byId.get(id)
  }

  addSession(record: SessionRecord): SessionRecord {
    this.#sessions.set(nameOf(record.user_id, record.session_id), record)
    this.#byId.set(record.id, record)
    return record
  }

  /** Marks a new or changed session to be written. */
  touch(record: SessionRecord): void {
    this.#dirty.add(record)
  }

  /** Decisions on calls with this client's id in the person's sessions, the newest first. */
  priors(userId: string, toolUseId: string): readonly PriorDecision[] {
    return (this.#priors.get(toolUseId) ?? []).filter(
      (prior) => this.#byId.get(prior.session_id)?.user_id === userId,
    )
  }

  addPrior(prior: PriorDecision): void {
    this.#priors.set(prior.tool_use_id, [prior, ...(this.#priors.get(prior.tool_use_id) ?? [])])
  }

  /** The newest approval of an identical call in the session. */
  approvalOf(session: SessionRecord, paramsHash: string): ApprovalRecord | undefined {
    return this.#ofCall.get(callOf(session.id, paramsHash))
  }

  addApproval(approval: NewApproval): void {
    this.newApprovals.push(approval)
    this.keepApproval(approval.record)
  }

  keepApproval(record: ApprovalRecord): void {
    this.approvals.set(record.id, record)
    const key = callOf(record.session_id ?? '', record.params_hash ?? '')
    const known = this.#ofCall.get(key)
    if (known === undefined || known.id < record.id) this.#ofCall.set(key, record)
  }

  write(tx: ChainTx): void {
    const parts = []
    if (this.#dirty.size > 0) parts.push(writeSessions(tx, [...this.#dirty]))
    if (this.newApprovals.length > 0) parts.push(insertApprovals(tx, this.newApprovals))
    const moved = [...this.dirtyApprovals].filter(
      (record) => !this.newApprovals.some((each) => each.record === record),
    )
    if (moved.length > 0) parts.push(updateApprovals(moved))
    if (this.newDecisions.length > 0) parts.push(insertDecisions(tx, this.newDecisions))
    if (parts.length > 0) void tx.send(sql`with ${sql.join(parts)} select 1`)
  }
}

/** A session's name, person and organization never change. */
function writeSessions(tx: ChainTx, sessions: readonly SessionRecord[]) {
  return sql`written_sessions as (
    insert into agent_sessions as s (organization_id, id, user_id, session_id, run_id, agent_name, agent_kind, status,
      labels, label_sources, label_bytes, decision_seq, allowed, held, denied, started_at, last_seen_at, ended_at)
    select ${tx.organizationId}, r.id, r.user_id, r.session_id, r.run_id, r.agent_name, r.agent_kind, r.status, r.labels,
      r.label_sources, r.label_bytes, r.decision_seq, r.allowed, r.held, r.denied, r.started_at, r.last_seen_at, r.ended_at
    from json_to_recordset(${numbered(sessions)}::json) as r(id text, user_id text, session_id text, run_id text,
      agent_name text, agent_kind text, status text, labels text[], label_sources jsonb, label_bytes int, decision_seq int, allowed int,
      held int, denied int, started_at timestamptz, last_seen_at timestamptz, ended_at timestamptz)
    on conflict (id) do update set status = excluded.status, labels = excluded.labels,
      label_sources = excluded.label_sources, label_bytes = excluded.label_bytes, decision_seq = excluded.decision_seq, allowed = excluded.allowed,
      held = excluded.held, denied = excluded.denied, last_seen_at = excluded.last_seen_at, ended_at = excluded.ended_at
  )`
}

interface LoadedRows {
  sessions: SessionRecord[] | null
  priors: PriorDecision[] | null
  approvals: ApprovalRecord[] | null
  roles: { user_id: string; role: Role; confirmed: boolean }[] | null
  valid: string[]
}

const askingScopes = ['agents:authorize', 'agents:*']

/** The columns of a SessionRecord. */
const sessionColumns = sql`id, user_id, session_id, run_id, agent_name, agent_kind, status, labels, label_sources,
  label_bytes, decision_seq, allowed, held, denied, started_at, last_seen_at, ended_at`

/** An answer is given again for so long, in case it was lost. */
export const replayMinutes = 10
/** The most earlier answers that are read for one call, the newest first. */
const mostPriors = 32

/**
 * Reads sessions, earlier decisions on the same calls, their approvals, and the present roles of askers and voters. It
 * also checks which of the askers' keys and sessions are still valid.
 */
export async function loadAgentLedger(reader: ChainReader, keys: readonly CallKey[]): Promise<AgentLedger> {
  const { organizationId } = reader
  const senders = keys.map((key) => key.by)
  const rows = await reader.send(sql<LoadedRows>`
    with k as (
      select distinct * from unnest(
        ${keys.map((key) => key.userId)}::text[], ${keys.map((key) => key.sessionId)}::text[],
        ${keys.map((key) => key.paramsHash)}::text[], ${keys.map((key) => key.toolUseId)}::text[]
      ) as k(user_id, session_id, params_hash, tool_use_id)
    ), p as (
      select d.*, coalesce((select true from agent_observations where decision_id = d.id limit 1), false) as observed
      from (select distinct user_id, tool_use_id from k) as u cross join lateral (
        select id, session_id, tool_use_id, tool, side_effect, params_hash, verdict, rule_name, reason, explanation,
               labels, approval_id, policy_version, decided_at
        from decisions
        where tool_use_id = u.tool_use_id and requested_by = u.user_id and organization_id = ${organizationId}
          and decided_at > clock_timestamp() - ${replayMinutes} * interval '1 minute'
        order by decided_at desc, id desc limit ${mostPriors}
      ) as d
    ), named as (
      select found.* from (select distinct user_id, session_id from k) as n cross join lateral (
        select ${sessionColumns} from agent_sessions
        where user_id = n.user_id and session_id = n.session_id and organization_id = ${organizationId}
        limit 1
      ) as found
    ), s as (
      select * from named
      union all
      select found.* from (
        select distinct session_id from p where session_id not in (select id from named)
      ) as other cross join lateral (
        select ${sessionColumns} from agent_sessions where id = other.session_id and organization_id = ${organizationId}
        limit 1
      ) as found
    ), c as (
      -- A call belongs to its own session, or to the session in which it was asked under the same id before.
      select s.id as session_id, k.params_hash from s join k using (user_id, session_id)
      union
      select s.id, k.params_hash from k join p using (tool_use_id) join s on s.id = p.session_id
      where s.user_id = k.user_id
    ), a as (
      -- Only the newest approval of a call counts: earlier ones were used up.
      select newest.* from c cross join lateral (
        select ${approvalColumns} from approvals
        where session_id = c.session_id and params_hash = c.params_hash and superseded_by is null
        order by id desc limit 1
      ) as newest
    ), b as (
      select ${approvalColumns} from approvals
      where id in (select approval_id from p) and id not in (select id from a)
    ), m as (
      select user_id, role, (select email_verified from users where id = memberships.user_id) as confirmed
      from memberships where organization_id = ${organizationId}
        and user_id = any(array(
          select user_id from k
          union select user_id from approval_votes where approval_id in (select id from a union all select id from b)
        ))
    )
    select (select json_agg(s) from s) as sessions,
           (select json_agg(p order by p.decided_at desc, p.id desc) from p) as priors,
           (select json_agg(x) from (select * from a union all select * from b) as x) as approvals,
           (select json_agg(m) from m) as roles,
           array(select id from api_keys
                 where id = any(${senders}::text[]) and revoked_at is null and scopes && ${askingScopes}::text[]
                   and coalesce(expires_at > clock_timestamp(), true)
                 union all
                 select id from auth_sessions
                 where id = any(${senders}::text[]) and expires_at > clock_timestamp()) as valid`)
  const loaded = rows[0] as LoadedRows
  const ledger = new AgentLedger()
  for (const session of loaded.sessions ?? []) ledger.addSession(session)
  for (const prior of [...(loaded.priors ?? [])].reverse()) ledger.addPrior(prior)
  for (const approval of loaded.approvals ?? []) ledger.keepApproval(approval)
  for (const id of loaded.valid) ledger.valid.add(id)
  for (const { user_id, role, confirmed } of loaded.roles ?? []) {
    ledger.roles.set(user_id, role)
    if (confirmed) ledger.confirmed.add(user_id)
  }
  return ledger
}
