import { sql } from 'kysely'
import type { Context } from '../../context.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import { isTooLarge, JsonSize, mostHeapBytes, mostValues } from '../json-cost.ts'
import { heapBytes, Recent } from '../recent.ts'
import { outputPlace } from '../sealing/places.ts'
import { openKept, type Kept } from '../sealing/sealer.ts'
import { openInputsText } from './fixed-run.ts'
import type { EffectKey } from './ledger.ts'
import { Shared } from './shared.ts'

type Reader = Pick<Context, 'db' | 'sealer'>

/** Outputs of finished steps by run and step; they never change, so a worker keeps 64 MiB of the last ones. */
const outputs = new Shared<Json>(64 * 1024 * 1024)
/** Inputs of runs that have many (fixed-run.ts). */
const inputs = new Shared<JsonObject>(16 * 1024 * 1024)
/** Bytes of outputs as PostgreSQL counts them. */
const sizes = new Recent<number>(1024 * 1024)

/** A stored value that was allowed once and is more than a process takes today, or one that has ended workers. */
export class ResourceExhausted extends Error {
  override readonly name = 'ResourceExhausted'
}

const tooLarge = (what: string): ResourceExhausted =>
  new ResourceExhausted(
    `${what} has more than ${mostValues} values, or takes more than ${mostHeapBytes / 1024 / 1024} MiB in memory: hand on smaller values`,
  )

const nameOf = (stepId: string): string => `the output of step \`${stepId}\``

/** What a run's sources have in PostgreSQL: bytes of all, and of those that this process does not have in memory. */
export interface SourceSizes {
  readonly octets: number
  readonly missing: number
}

/** Throws ResourceExhausted for an output that is too large to be looked at. */
export async function sizesOf(
  { db }: Reader,
  runId: string,
  stepIds: readonly string[],
): Promise<SourceSizes> {
  const unknown = stepIds.filter((stepId) => sizes.get(`${runId}/${stepId}`) === undefined)
  if (unknown.length > 0) {
    const { rows } = await sql<{ step_id: string; octets: number }>`
      select step_id, coalesce(sum(coalesce(octet_length(output_sealed), octet_length(output))), 0)::float8 as octets
      from effects
      where run_id = ${runId} and step_id = any(${unknown}::text[]) group by step_id`.execute(db)
    const found = new Map(rows.map((row) => [row.step_id, row.octets]))
    for (const stepId of unknown) sizes.set(`${runId}/${stepId}`, found.get(stepId) ?? 0, 8)
  }
  let [octets, missing] = [0, 0]
  for (const stepId of stepIds) {
    const own = sizes.get(`${runId}/${stepId}`) ?? 0
    if (own > mostHeapBytes) throw tooLarge(nameOf(stepId))
    octets += own
    if (outputs.peek(`${runId}/${stepId}`) === undefined) missing += own
  }
  return { octets, missing }
}

/**
 * Outputs of a run's ended steps: the value itself, or for a `for_each` step the list of its items' outputs. A step
 * that was skipped or ended badly has null. Who asks for one that is being read waits for it. Throws ResourceExhausted.
 */
export async function readOutputs(
  reader: Reader,
  runId: string,
  stepIds: readonly string[],
): Promise<Map<string, Json>> {
  const found = new Map<string, Json>()
  for (const stepId of stepIds) {
    const read = () => readOutput(reader, runId, stepId)
    const value = await outputs.get(`${runId}/${stepId}`, read).catch((error: unknown) => {
      if (error instanceof NotEnded) return undefined
      throw error
    })
    if (value !== undefined) found.set(stepId, value)
  }
  return found
}

/** It has no output yet, and may have one soon. */
class NotEnded extends Error {}

interface OutputRow extends Kept {
  readonly item_count: number | null
  readonly item_index: number | null
}

async function readOutput(
  { db, sealer }: Reader,
  runId: string,
  stepId: string,
): Promise<{ value: Json; bytes: number }> {
  const { rows } = await sql<OutputRow>`
    select s.item_count, e.item_index, e.output as plain, e.output_sealed as sealed from run_steps s
    left join effects e on e.run_id = s.run_id and e.step_id = s.step_id
    where s.run_id = ${runId} and s.step_id = ${stepId} and s.finished_at is not null
    order by e.item_index`.execute(db)
  const [first] = rows
  if (first === undefined) throw new NotEnded()
  const size = new JsonSize()
  const values: Json[] = []
  // One after the other: side by side they would all be in memory twice.
  for (const row of rows) {
    if (row.item_index === null) continue
    const text = await openKept(sealer, outputPlace({ runId, stepId, itemIndex: row.item_index }), row)
    if (text !== null && !size.add(text)) throw tooLarge(nameOf(stepId))
    values.push(text === null ? null : (JSON.parse(text) as Json))
  }
  const value: Json = first.item_count === null ? (values[0] ?? null) : values
  return { value, bytes: heapBytes(value) }
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

/** A run's inputs, read once for all who ask at the same time. Throws ResourceExhausted. */
export async function readInputs(reader: Reader, runId: string): Promise<JsonObject> {
  return inputs.get(runId, async () => {
    const row = await reader.db
      .selectFrom('runs')
      .select(['id', 'inputs', 'inputs_sealed'])
      .where('id', '=', runId)
      .executeTakeFirstOrThrow()
    const text = await openInputsText(reader, row)
    if (isTooLarge(text)) throw tooLarge('the input')
    const value = JSON.parse(text) as JsonObject
    return { value, bytes: heapBytes(value) }
  })
}

export const hasInputs = (runId: string): boolean => inputs.peek(runId) !== undefined

/** Of a run that has ended: nothing reads them from here again. */
export function forgetOutputs(runId: string, stepIds: readonly string[]): void {
  inputs.delete(runId)
  for (const stepId of stepIds) {
    outputs.delete(`${runId}/${stepId}`)
    sizes.delete(`${runId}/${stepId}`)
  }
}
