import { sql, type RawBuilder } from 'kysely'
import type { Verdict } from '../../../policy/types.ts'

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
