import { sql } from 'kysely'
import { memoryOver } from '../../governance/quotas/memory-room.ts'
import { unionLabels } from '../../policy/types.ts'
import type { Executor } from './executor.ts'
import type { ToolParams } from './params.ts'

/**
 * Writes nothing itself: `commit` replaces value and labels in the transaction that also commits the outcome, so a
 * crash before it leaves neither and a repeated attempt writes once. The labels are those the call was decided on:
 * whoever reads the value gets them back. They replace those of the value before, which this one was not made of
 * (docs/decisions/0071). The last writer wins.
 */
export const setMemory: Executor<ToolParams<'memory_set'>> = async (call, context) => {
  const { organizationId } = call
  const { key } = call.params
  const text = JSON.stringify(call.params.value)
  const row = {
    value: null,
    value_sealed: await context.tools.memory.seal(organizationId, key, text),
    labels: unionLabels(call.labels),
    updated_at: sql<Date>`now()`,
    updated_by: call.requester.userId,
    deleted_at: null,
  }
  return {
    output: { key },
    commit: async (trx, limits) => {
      const over = await memoryOver(trx, organizationId, { key, text, labels: row.labels }, limits.memory_mb)
      if (over !== null) return over
      await trx
        .insertInto('memory')
        .values({ organization_id: organizationId, key, ...row })
        .onConflict((conflict) => conflict.columns(['organization_id', 'key']).doUpdateSet(row))
        .execute()
      return null
    },
  }
}
