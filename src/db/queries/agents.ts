import { sql, type RawBuilder } from 'kysely'
import type { Verdict, Role } from '../../policy/types.ts'
import { approvalColumns, groupsByPerson, holderOfVote } from './approvals.ts'

export interface FinishedCall {
  readonly userId: string
  /** The client's own id. */
  readonly sessionId: string
  /** The hash of the tool and its arguments, without the folder of a shell. */
  readonly paramsHash: string
  readonly outcome: string | null
}

export interface DecidedCall {
  readonly run_id: string
  readonly labels: string[]
}

/** Finds no row for session `s` if its person may no longer ask for decisions in its organization. */
const askers = sql`memberships m on m.organization_id = s.organization_id and m.user_id = s.user_id and m.role <> 'viewer'`

/** The newest in this session, else in the person's other ones. `toolUseId` is the client's id of the call. */
export const noteOutcomeOfId = (
  { userId, sessionId, paramsHash, outcome }: FinishedCall,
  toolUseId: string,
): RawBuilder<DecidedCall & { readonly verdict: Verdict }> => sql`
  with call as (
    select d.id, d.verdict, d.decided_at, s.run_id, s.labels, s.session_id = ${sessionId} as is_own
    from decisions d join agent_sessions s on s.id = d.session_id join ${askers}
    where d.tool_use_id = ${toolUseId} and coalesce(d.input_hash, d.params_hash) = ${paramsHash} and s.user_id = ${userId}
  ), noted as (
    insert into agent_observations (decision_id, outcome)
    select id, ${outcome}::text from call where verdict = 'allow'
    on conflict do nothing
  )
  select run_id, labels, verdict from call order by is_own desc, decided_at desc, id desc limit 1`

/** For the oldest allowing decision without an outcome. `noted` is false if another request was faster. */
export const noteOutcomeOfOldest = (
  given: FinishedCall,
): RawBuilder<DecidedCall & { readonly noted: boolean }> => sql`
  with call as (
    select d.id, s.run_id, s.labels
    from decisions d join agent_sessions s on s.id = d.session_id join ${askers}
    where coalesce(d.input_hash, d.params_hash) = ${given.paramsHash} and d.verdict = 'allow'
      and s.user_id = ${given.userId} and s.session_id = ${given.sessionId}
      and not exists (select from agent_observations where decision_id = d.id)
    order by d.seq limit 1
  ), noted as (
    insert into agent_observations (decision_id, outcome)
    select id, ${given.outcome}::text from call
    on conflict do nothing
    returning decision_id
  )
  select run_id, labels, exists (select from noted) as noted from call`

export interface AgentLedgerRows<Session, Prior, Approval> {
  readonly sessions: Session[] | null
  /** Earlier decisions on these calls, newest first. */
  readonly priors: Prior[] | null
  readonly approvals: Approval[] | null
  /** Roles of those who ask for decisions or have voted, and the groups of voters. */
  readonly roles: { readonly user_id: string; readonly role: Role; readonly confirmed: boolean }[] | null
  readonly groups: Record<string, string[]> | null
  /** The keys and sessions (`CallKey.by`) that may still ask. */
  readonly valid: string[]
  /** Those of them whose calls need a rule that allows them. */
  readonly narrow: string[] | null
}

interface CallKey {
  readonly userId: string
  readonly sessionId: string
  readonly paramsHash: string
  readonly toolUseId: string | null
  /** The key or session with which the person asks. */
  readonly by: string
}

const askingScopes = ['agents:authorize', 'agents:*']

const sessionColumns = sql`id, user_id, session_id, run_id, agent_name, agent_kind, status, labels, label_sources,
  unknown_tools, written, label_bytes, decision_seq, allowed, held, denied, started_at, last_seen_at, ended_at`

/** For each call, at most `mostPriors` earlier decisions of the last `replayMinutes`. */
export const readAgentLedger = <Session, Prior, Approval>(given: {
  readonly organizationId: string
  readonly keys: readonly CallKey[]
  readonly replayMinutes: number
  readonly mostPriors: number
}): RawBuilder<AgentLedgerRows<Session, Prior, Approval>> => {
  const senders = given.keys.map((key) => key.by)
  return sql`
    with k as (
      select distinct * from unnest(
        ${given.keys.map((key) => key.userId)}::text[], ${given.keys.map((key) => key.sessionId)}::text[],
        ${given.keys.map((key) => key.paramsHash)}::text[], ${given.keys.map((key) => key.toolUseId)}::text[]
      ) as k(user_id, session_id, params_hash, tool_use_id)
    ), p as (
      select d.*, coalesce((select true from agent_observations where decision_id = d.id limit 1), false) as observed
      from (select distinct user_id, tool_use_id from k) as u cross join lateral (
        select id, session_id, tool_use_id, tool, side_effect, params_hash, verdict, rule_name, reason, explanation,
               labels, approval_id, policy_version, decided_at
        from decisions
        where tool_use_id = u.tool_use_id and requested_by = u.user_id and organization_id = ${given.organizationId}
          and decided_at > clock_timestamp() - ${given.replayMinutes} * interval '1 minute'
        order by decided_at desc, id desc limit ${given.mostPriors}
      ) as d
    ), named as (
      select found.* from (select distinct user_id, session_id from k) as n cross join lateral (
        select ${sessionColumns} from agent_sessions
        where user_id = n.user_id and session_id = n.session_id and organization_id = ${given.organizationId}
        limit 1
      ) as found
    ), s as (
      select * from named
      union all
      select found.* from (
        select distinct session_id from p where session_id not in (select id from named)
      ) as other cross join lateral (
        select ${sessionColumns} from agent_sessions where id = other.session_id and organization_id = ${given.organizationId}
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
      from memberships where organization_id = ${given.organizationId}
        and user_id = any(array(
          select user_id from k
          union select ${holderOfVote} from approval_votes v where approval_id in (select id from a union all select id from b)
        ))
    )
    select (select json_agg(s) from s) as sessions,
           (select json_agg(p order by p.decided_at desc, p.id desc) from p) as priors,
           (select json_agg(x) from (select * from a union all select * from b) as x) as approvals,
           (select json_agg(m) from m) as roles,
           ${groupsByPerson(
             given.organizationId,
             sql`select ${holderOfVote} from approval_votes v where approval_id in (select id from a union all select id from b)`,
           )} as groups,
           array(select id from api_keys
                 where id = any(${senders}::text[]) and revoked_at is null and scopes && ${askingScopes}::text[]
                   and coalesce(expires_at > clock_timestamp(), true)
                 union all
                 select id from auth_sessions
                 where id = any(${senders}::text[]) and expires_at > clock_timestamp()) as valid,
           array(select id from api_keys where id = any(${senders}::text[]) and default_agent_access = 'deny') as narrow`
}

/**
 * The newest sessions that pass the filters, from the index of the list of each organization. With one condition for
 * all, PostgreSQL would often read the sessions of the whole installation until it has found enough; also with
 * `organization_id = o.id` in place of `between`, because then the index of the ids has the same order.
 * @param after only sessions before this id; null for the newest ones
 */
export const newestSessionIds = (given: {
  readonly organizationIds: readonly string[]
  /** Organizations of which only the sessions of this person are shown. */
  readonly own: { readonly userId: string; readonly organizationIds: readonly string[] }
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
  const newestIn = (organizationIds: readonly string[], more: RawBuilder<unknown>) => sql`
    select newest.id from unnest(${[...organizationIds]}::text[]) as o (id)
    cross join lateral (
      select s.id from agent_sessions s
      where s.organization_id between o.id and o.id ${sql.join(conditions, sql` `)} ${more}
      order by s.organization_id, s.id desc limit ${given.most}) as newest`
  return sql`(
  select id from (
    ${newestIn(given.organizationIds, sql``)}
    union all ${newestIn(given.own.organizationIds, sql`and s.user_id = ${given.own.userId}`)}
  ) as found order by id desc limit ${given.most})`
}

/** They are of the decisions of one transaction. */
export interface NewInputs {
  readonly id: string
  readonly organizationId: string
  readonly decisionIds: readonly string[]
  readonly sealed: Buffer
  readonly bytes: number
  readonly decidedAt: Date
}

/** CTE. */
export const insertInputs = (kept: NewInputs): RawBuilder<unknown> => sql`kept_inputs as (
    insert into decision_inputs (id, organization_id, decision_ids, sealed, bytes, decided_at)
    values (${kept.id}, ${kept.organizationId}, ${[...kept.decisionIds]}::text[], ${kept.sealed}::bytea, ${kept.bytes}::int,
      ${kept.decidedAt}::timestamptz)
  )`

/** CTE. The name, person and organization of a session never change. */
export const writeAgentSessions = (
  organizationId: string,
  sessions: readonly object[],
): RawBuilder<unknown> => sql`written_sessions as (
    insert into agent_sessions as s (organization_id, id, user_id, session_id, run_id, agent_name, agent_kind, status,
      labels, label_sources, unknown_tools, written, label_bytes, decision_seq, allowed, held, denied, started_at, last_seen_at, ended_at)
    select ${organizationId}, r.id, r.user_id, r.session_id, r.run_id, r.agent_name, r.agent_kind, r.status, r.labels,
      r.label_sources, r.unknown_tools, r.written, r.label_bytes, r.decision_seq, r.allowed, r.held, r.denied, r.started_at, r.last_seen_at, r.ended_at
    from json_to_recordset(${JSON.stringify(sessions)}::json) as r(id text, user_id text, session_id text, run_id text,
      agent_name text, agent_kind text, status text, labels text[], label_sources jsonb, unknown_tools text[], written text[], label_bytes int, decision_seq int, allowed int,
      held int, denied int, started_at timestamptz, last_seen_at timestamptz, ended_at timestamptz)
    on conflict (id) do update set status = excluded.status, labels = excluded.labels,
      label_sources = excluded.label_sources, unknown_tools = excluded.unknown_tools, written = excluded.written, label_bytes = excluded.label_bytes, decision_seq = excluded.decision_seq, allowed = excluded.allowed,
      held = excluded.held, denied = excluded.denied, last_seen_at = excluded.last_seen_at, ended_at = excluded.ended_at
  )`
