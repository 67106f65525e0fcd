import type { Kysely } from 'kysely'
import type { Database } from '../../db/schema/index.ts'
import type { Json } from '../../policy/types.ts'
import { heapBytes, Recent } from '../recent.ts'

/** Outputs of finished steps by run and step; they never change, so a worker keeps 64 MiB of the last ones. */
const cache = new Recent<Json>(64 * 1024 * 1024)

/**
 * Outputs of a run's ended steps: the value itself, or for a `for_each` step the list of its items' outputs. A step
 * that was skipped or ended badly has null.
 */
export async function readOutputs(
  db: Kysely<Database>,
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
  const steps = await db
    .selectFrom('run_steps')
    .select(['step_id', 'item_count'])
    .where('run_id', '=', runId)
    .where('step_id', 'in', missing)
    .where('finished_at', 'is not', null)
    .execute()
  const rows = await db
    .selectFrom('effects')
    .select(['step_id', 'item_index', 'output'])
    .where('run_id', '=', runId)
    .where('step_id', 'in', missing)
    .orderBy('item_index')
    .execute()
  for (const step of steps) {
    const own = rows.filter((row) => row.step_id === step.step_id)
    const value: Json = step.item_count === null ? parse(own[0]?.output) : own.map((row) => parse(row.output))
    outputs.set(step.step_id, value)
    cache.set(`${runId}/${step.step_id}`, value, heapBytes(value))
  }
  return outputs
}

/** Of a run that has ended: nothing reads them from here again. */
export function forgetOutputs(runId: string, stepIds: readonly string[]): void {
  for (const stepId of stepIds) cache.delete(`${runId}/${stepId}`)
}

const parse = (text: string | null | undefined): Json =>
  text === null || text === undefined ? null : (JSON.parse(text) as Json)
