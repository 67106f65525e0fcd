import { sql } from 'kysely'
import type { EffectKey } from '../../../contract/effect-key.ts'
import type { Context } from '../../context.ts'
import { exceededEntry, type Exceeded } from '../../limits/run-quota.ts'
import { runActor } from './ledger-moves.ts'

export interface ReserveOp {
  readonly key: EffectKey
  readonly attempt: number
  readonly tool: string
  /** The highest cost of the attempt, in currency units. */
  readonly most: number
}

/**
 * Counts the highest cost of an attempt before anything is spent (commit point `effect.spend`), if the month's spend has
 * room for it. The month is that in which the run was accepted. Decided under the organization's lock, so that calls
 * side by side cannot spend the same room. `superseded`: the attempt may not act any more.
 */
export function reserveCost(
  context: Pick<Context, 'combiner'>,
  organizationId: string,
  { key, attempt, tool, most }: ReserveOp,
): Promise<'reserved' | 'superseded' | Exceeded> {
  return context.combiner.run(organizationId, 'effect.spend', async (tx) => {
    const limit = tx.policy.limits.monthly_spend
    const [row] = await tx.send(sql<{ may_act: boolean; reserved: boolean }>`
      with call as (
        select r.id, date_trunc('month', r.created_at, 'UTC') as month
        from effects e join runs r on r.id = e.run_id
        where e.run_id = ${key.runId} and e.step_id = ${key.stepId} and e.item_index = ${key.itemIndex}
          and e.attempt = ${attempt} and e.state = 'intent' and r.organization_id = ${organizationId}
          and r.cancel_requested_at is null and r.finished_at is null
      ), counted as (
        update runs set cost = cost + ${most}::numeric
        where id = (select id from call) and ${most}::numeric + (
          select coalesce(sum(cost), 0) from runs, call
          where organization_id = ${organizationId} and cost > 0
            and created_at >= call.month and created_at < call.month + interval '1 month'
        ) <= ${limit}::numeric
        returning 1
      )
      select exists(select from call) as may_act, exists(select from counted) as reserved`)
    if (row?.reserved === true) return 'reserved'
    if (row?.may_act !== true) return 'superseded'
    const over: Exceeded = { limit: 'monthly_spend', value: limit, retryAfter: 1 }
    tx.append(exceededEntry(over, tool, runActor({ id: key.runId }), { runId: key.runId }))
    return over
  })
}
