import { sql, type RawBuilder } from 'kysely'

/**
 * Adds `most` to the cost of a run. `most` is the highest possible cost of an attempt. Adds nothing unless both
 * conditions are true:
 *
 * - The attempt may still act (`may_act`).
 * - `most` fits into the rest of the budget `limit`. This is the budget of the month in which the run was accepted.
 *
 * `reserved` tells whether the cost was added.
 */
export const reserveCostOfAttempt = (given: {
  readonly organizationId: string
  readonly runId: string
  readonly stepId: string
  readonly itemIndex: number
  readonly attempt: number
  readonly most: number
  readonly limit: number
}): RawBuilder<{ readonly may_act: boolean; readonly reserved: boolean }> => sql`
  with call as (
    select r.id, date_trunc('month', r.created_at, 'UTC') as month
    from effects e join runs r on r.id = e.run_id
    where e.run_id = ${given.runId} and e.step_id = ${given.stepId} and e.item_index = ${given.itemIndex}
      and e.attempt = ${given.attempt} and e.state = 'intent' and r.organization_id = ${given.organizationId}
      and r.cancel_requested_at is null and r.finished_at is null
  ), counted as (
    update runs set cost = cost + ${given.most}::numeric
    where id = (select id from call) and ${given.most}::numeric + (
      select coalesce(sum(cost), 0) from runs, call
      where organization_id = ${given.organizationId} and cost > 0
        and created_at >= call.month and created_at < call.month + interval '1 month'
    ) <= ${given.limit}::numeric
    returning 1
  )
  select exists(select from call) as may_act, exists(select from counted) as reserved`
