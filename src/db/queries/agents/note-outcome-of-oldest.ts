import { sql, type RawBuilder } from 'kysely'
import { askers, type DecidedCall, type FinishedCall } from './find-finished-call.ts'

/**
 * Stores the outcome for the oldest decision that allowed the call and has no outcome yet. `noted` is false if another
 * request stored an outcome for this decision at the same moment.
 */
export const noteOutcomeOfOldest = ({
  userId,
  sessionId,
  paramsHash,
  outcome,
}: FinishedCall): RawBuilder<DecidedCall & { readonly noted: boolean }> => sql`
  with call as (
    select d.id, s.run_id, s.labels
    from decisions d join agent_sessions s on s.id = d.session_id join ${askers}
    where coalesce(d.input_hash, d.params_hash) = ${paramsHash} and d.verdict = 'allow'
      and s.user_id = ${userId} and s.session_id = ${sessionId}
      and not exists (select from agent_observations where decision_id = d.id)
    order by d.seq limit 1
  ), noted as (
    insert into agent_observations (decision_id, outcome)
    select id, ${outcome}::text from call
    on conflict do nothing
    returning decision_id
  )
  select run_id, labels, exists (select from noted) as noted from call`
