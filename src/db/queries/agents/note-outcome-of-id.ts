import { sql, type RawBuilder } from 'kysely'
import type { Verdict } from '../../../policy/types.ts'
import { askers, type DecidedCall, type FinishedCall } from './find-finished-call.ts'

/**
 * Stores the outcome of a call for every decision that allowed the call. `toolUseId` is the client's id of the call.
 * Returns the newest decision on the call in session `sessionId`. If this session has none, returns the newest decision
 * in the other sessions of the person.
 */
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
