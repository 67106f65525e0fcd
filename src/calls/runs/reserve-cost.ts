import { reserveCostOfAttempt } from '../../db/queries/runs/reserve-cost.ts'
import type { EffectKey } from '../../contract/effect-key.ts'
import type { Context } from '../../governance/context.ts'
import { exceededEntry, type Exceeded } from '../../governance/limits/run-quota.ts'
import { runActor } from './ledger-moves.ts'

export interface ReserveOp {
  readonly key: EffectKey
  readonly attempt: number
  readonly tool: string
  /** The highest cost that the attempt can have, in currency units. */
  readonly most: number
}

/**
 * Reserves the highest cost of an attempt before anything is spent (commit point `effect.spend`). Holds the
 * organization's lock, so that two calls cannot reserve the same money. Reserves nothing in two cases:
 *
 * - The attempt may not act any more. The function then returns `superseded`.
 * - The spend of the month in which the run was accepted would exceed `monthly_spend`. The function then writes an
 *   audit entry and returns the limit.
 */
export function reserveCost(
  context: Pick<Context, 'combiner'>,
  organizationId: string,
  { key, attempt, tool, most }: ReserveOp,
): Promise<'reserved' | 'superseded' | Exceeded> {
  return context.combiner.run(organizationId, 'effect.spend', async (tx) => {
    const limit = tx.policy.limits.monthly_spend
    const [row] = await tx.send(
      reserveCostOfAttempt({
        organizationId,
        runId: key.runId,
        stepId: key.stepId,
        itemIndex: key.itemIndex,
        attempt,
        most,
        limit,
      }),
    )
    if (row?.reserved === true) return 'reserved'
    if (row?.may_act !== true) return 'superseded'
    const over: Exceeded = { limit: 'monthly_spend', value: limit, retryAfter: 1 }
    tx.append(exceededEntry(over, tool, runActor({ id: key.runId }), { runId: key.runId }))
    return over
  })
}
