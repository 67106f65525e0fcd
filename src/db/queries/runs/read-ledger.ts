import { sql, type RawBuilder } from 'kysely'
import type { Role } from '../../../policy/types.ts'
import { approvalColumns } from '../approvals/read-approvals.ts'

export interface RunLedgerRows<Run, Effect, Step, Approval> {
  /** In the organization; null if all `runs` have a slot. */
  readonly slots: { readonly taken: number; readonly waiting: number } | null
  readonly runs: Run[] | null
  readonly effects: Effect[] | null
  readonly steps: Step[] | null
  readonly approvals: Approval[] | null
  /** Present roles of requesters and voters. */
  readonly roles: { readonly user_id: string; readonly role: Role; readonly confirmed: boolean }[] | null
}

interface CallKey {
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
}

/** Locks the rows of the calls. */
export const readRunLedger = <Run, Effect, Step, Approval>(
  organizationId: string,
  keys: readonly CallKey[],
): RawBuilder<RunLedgerRows<Run, Effect, Step, Approval>> => {
  const runIds = [...new Set(keys.map((key) => key.runId))]
  return sql`
    with k as (
      select distinct * from unnest(${keys.map((key) => key.runId)}::text[], ${keys.map((key) => key.stepId)}::text[],
                           ${keys.map((key) => key.itemIndex)}::int[]) as k(run_id, step_id, item_index)
    ), r as (
      select id, workflow_id, workflow_version, requested_by, authors, risk, cancel_requested_at, finished_at, status,
             status_reason, decision_seq, stored_bytes, nodes_executed, nodes_failed, started_at,
             slot, cost, calls.*
      from runs cross join lateral (
        select count(*) filter (where e.state in ('held', 'unknown_outcome'))::int as waiting,
               count(*) filter (where k.run_id is null and e.state in ('intent', 'sent', 'retry'))::int as others_under_way,
               count(*) filter (where k.run_id is null and e.wants_slot)::int as others_wanting
        from effects e left join k using (run_id, step_id, item_index)
        where e.run_id = runs.id and e.state in ('held', 'unknown_outcome', 'intent', 'sent', 'retry')
      ) as calls
      where id = any(${runIds}) and organization_id = ${organizationId}
    ), e as (
      select run_id, step_id, item_index, tool, state, attempt, failures, resolved_outcome, params_hash, labels,
             label_sources, decision_id, approval_id, output_labels, error, past_outcomes, intent_at, sent_at, sent_with,
             finished_at, duration_ms, wants_slot, bodies, body_counted, until
      from effects join k using (run_id, step_id, item_index)
      -- \`effect.sent\` commits outside the chain lock: the row lock orders it against a new attempt.
      for update of effects
    ), s as (
      select run_id, step_id, kind, item_count, author_roles, status, verdict, attempts, labels, error, started_at, finished_at
      from run_steps where (run_id, step_id) in (select run_id, step_id from k)
    ), a as (
      select ${approvalColumns}
      from approvals where id in (select approval_id from e)
    ), m as (
      select user_id, role, (select email_verified from users where id = memberships.user_id) as confirmed
      from memberships where organization_id = ${organizationId}
        and user_id in (select requested_by from r union select v.user_id from approval_votes v join a on a.id = v.approval_id)
    )
    select (select json_agg(r) from r) as runs, (select json_agg(e) from e) as effects,
           (select json_agg(s) from s) as steps, (select json_agg(a) from a) as approvals,
           (select json_agg(m) from m) as roles,
           case when exists(select from r where slot is distinct from 'taken') then
             (select json_build_object('taken', count(*) filter (where slot = 'taken'),
                                       'waiting', count(*) filter (where slot <> 'taken'))
              from runs where organization_id = ${organizationId} and slot is not null)
           end as slots`
}
