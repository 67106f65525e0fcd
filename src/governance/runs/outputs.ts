import type { Context } from '../../context.ts'
import type { Json } from '../../policy/types.ts'
import { heapBytes, Recent } from '../recent.ts'
import { outputPlace } from '../sealing/places.ts'
import { openKept, type Kept } from '../sealing/sealer.ts'
import type { EffectKey } from './ledger.ts'

/** Outputs of finished steps by run and step; they never change, so a worker keeps 64 MiB of the last ones. */
const cache = new Recent<Json>(64 * 1024 * 1024)

/**
 * Outputs of a run's ended steps: the value itself, or for a `for_each` step the list of its items' outputs. A step
 * that was skipped or ended badly has null.
 */
export async function readOutputs(
  context: Pick<Context, 'db' | 'sealer'>,
  runId: string,
  stepIds: readonly string[],
): Promise<Map<string, Json>> {
  const outputs = new Map<string, Json>()
  const missing: string[] = []
  for (const stepId of stepIds) {
    const cached = cache.get(`${runId}/${stepId}`)
    if (cached === undefined) missing.push(stepId)
    else outputs.set(stepId, cached)
  }
  if (missing.length === 0) return outputs
  const steps = await context.db
    .selectFrom('run_steps')
    .select(['step_id', 'item_count'])
    .where('run_id', '=', runId)
    .where('step_id', 'in', missing)
    .where('finished_at', 'is not', null)
    .execute()
  const rows = await context.db
    .selectFrom('effects')
    .select(['step_id', 'item_index', 'output as plain', 'output_sealed as sealed'])
    .where('run_id', '=', runId)
    .where('step_id', 'in', missing)
    .orderBy('item_index')
    .execute()
  for (const step of steps) {
    const own: Json[] = []
    // One after the other: side by side they would all be in memory twice.
    for (const row of rows.filter(({ step_id }) => step_id === step.step_id))
      own.push(await openOutput(context, { runId, stepId: step.step_id, itemIndex: row.item_index }, row))
    const value: Json = step.item_count === null ? (own[0] ?? null) : own
    outputs.set(step.step_id, value)
    cache.set(`${runId}/${step.step_id}`, value, heapBytes(value))
  }
  return outputs
}

/** Of a run that has ended: nothing reads them from here again. */
export function forgetOutputs(runId: string, stepIds: readonly string[]): void {
  for (const stepId of stepIds) cache.delete(`${runId}/${stepId}`)
}

/** The output that a call's row holds; null if there is none. Throws UnsealError. */
export async function openOutput(
  { sealer }: Pick<Context, 'sealer'>,
  key: EffectKey,
  kept: Kept,
): Promise<Json> {
  const text = await openKept(sealer, outputPlace(key), kept)
  return text === null ? null : (JSON.parse(text) as Json)
}
