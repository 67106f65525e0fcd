import type { EffectState } from '../../../contract/status.ts'
import type { Db } from '../../../db/schema/index.ts'
import type { ItemCounts } from './read.ts'
import type { Step } from './step-pages.ts'

/** The map contains only steps with items. */
export async function itemCountsOf(
  db: Db,
  runId: string,
  steps: readonly Pick<Step, 'step_id' | 'item_count'>[],
): Promise<ReadonlyMap<string, ItemCounts>> {
  const counts = new Map<string, { total: number; states: Partial<Record<EffectState, number>> }>()
  for (const { step_id, item_count } of steps)
    if (item_count !== null) counts.set(step_id, { total: item_count, states: {} })
  if (counts.size === 0) return counts
  const rows = await db
    .selectFrom('effects')
    .select(['step_id', 'state', (eb) => eb.cast<number>(eb.fn.countAll(), 'integer').as('count')])
    .where('run_id', '=', runId)
    .where('step_id', 'in', [...counts.keys()])
    .where('item_index', '>=', 0)
    .groupBy(['step_id', 'state'])
    .execute()
  for (const { step_id, state, count } of rows) {
    const own = counts.get(step_id)
    if (own !== undefined) own.states[state] = count
  }
  return counts
}
