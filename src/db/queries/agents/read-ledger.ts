import { sql, type RawBuilder } from 'kysely'
import type { Role } from '../../../policy/types.ts'
import { approvalColumns } from '../approvals/read-approvals.ts'

export interface AgentLedgerRows<Session, Prior, Approval> {
  readonly sessions: Session[] | null
  /** Earlier decisions on these calls, newest first. */
  readonly priors: Prior[] | null
  readonly approvals: Approval[] | null
  /** Roles of those who ask for decisions or have voted. */
  readonly roles: { readonly user_id: string; readonly role: Role; readonly confirmed: boolean }[] | null
  /** The keys and sessions (`CallKey.by`) that may still ask. */
  readonly valid: string[]
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
  unknown_tools, label_bytes, decision_seq, allowed, held, denied, started_at, last_seen_at, ended_at`

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
                 where id = any(${senders}::text[]) and expires_at > clock_timestamp()) as valid`
}
