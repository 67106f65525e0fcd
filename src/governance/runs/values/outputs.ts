import { sql } from 'kysely'
import type { Db } from '../../../db/schema/index.ts'
import type { Json, JsonObject } from '../../../policy/types.ts'
import { isTooLarge, JsonSize, mostHeapBytes, mostValues } from '../../../shared/json-size.ts'
import { counted, heapBytes } from '../../../shared/byte-cache.ts'
import { outputBinding } from '../../sealing/bindings.ts'
import { openKept, type Sealer } from '../../sealing/sealer.ts'
import { openInputsText } from './run-snapshot.ts'
import type { EffectKey } from '../../../contract/ids.ts'
import type { RunCaches } from './run-caches.ts'

export interface OutputReader {
  readonly db: Db
  readonly sealer: Sealer
  readonly runCaches: Pick<RunCaches, 'outputs' | 'inputs' | 'outputSizes'>
}

/** Thrown if a stored value is larger than today's limits allow, or if loading the value has crashed workers. */
export class ResourceExhausted extends Error {
  override readonly name = 'ResourceExhausted'
}

const tooLarge = (what: string): ResourceExhausted =>
  new ResourceExhausted(
    `${what} has more than ${mostValues} values, or takes more than ${mostHeapBytes / 1024 / 1024} MiB in memory: pass smaller values`,
  )

const nameOf = (stepId: string): string => `the output of step \`${stepId}\``

/** Bytes in PostgreSQL. `missing` counts only the outputs that are not in this process's memory. */
export interface SourceSizes {
  readonly octets: number
  readonly missing: number
}

/** Throws ResourceExhausted for an output that is too large to load. */
export async function sizesOf(
  { db, runCaches: { outputs, outputSizes } }: OutputReader,
  runId: string,
  stepIds: readonly string[],
): Promise<SourceSizes> {
  const unknown = stepIds.filter((stepId) => outputSizes.get(`${runId}/${stepId}`) === undefined)
  if (unknown.length > 0) {
    const { rows } = await sql<{ step_id: string; octets: number }>`
      select step_id, coalesce(sum(octet_length(output_sealed)), 0)::float8 as octets
      from effects
      where run_id = ${runId} and step_id = any(${unknown}::text[]) group by step_id`.execute(db)
    const found = new Map(rows.map((row) => [row.step_id, row.octets]))
    for (const stepId of unknown) outputSizes.set(`${runId}/${stepId}`, found.get(stepId) ?? 0, counted(8))
  }
  let [octets, missing] = [0, 0]
  for (const stepId of stepIds) {
    const own = outputSizes.get(`${runId}/${stepId}`) ?? 0
    if (own > mostHeapBytes) throw tooLarge(nameOf(stepId))
    octets += own
    if (outputs.peek(`${runId}/${stepId}`) === undefined) missing += own
  }
  return { octets, missing }
}

/**
 * For a `for_each` step: the list of its items' outputs, or null if it ended before its items were counted. A
 * step or an item has null if it was skipped or ended badly. Throws ResourceExhausted.
 */
export async function readOutputs(
  reader: OutputReader,
  runId: string,
  stepIds: readonly string[],
): Promise<Map<string, Json>> {
  const found = new Map<string, Json>()
  for (const stepId of stepIds) {
    const read = () => readOutput(reader, runId, stepId)
    const value = await reader.runCaches.outputs.get(`${runId}/${stepId}`, read).catch((error: unknown) => {
      if (error instanceof NotEnded) return undefined
      throw error
    })
    if (value !== undefined) found.set(stepId, value)
  }
  return found
}

class NotEnded extends Error {}

interface OutputRow {
  readonly sealed: Buffer | null
  readonly item_count: number | null
  readonly item_index: number | null
}

async function readOutput(
  { db, sealer }: OutputReader,
  runId: string,
  stepId: string,
): Promise<{ value: Json; bytes: number }> {
  const { rows } = await sql<OutputRow>`
    select s.item_count, e.item_index, e.output_sealed as sealed from run_steps s
    left join effects e on e.run_id = s.run_id and e.step_id = s.step_id
    where s.run_id = ${runId} and s.step_id = ${stepId} and s.finished_at is not null
    order by e.item_index`.execute(db)
  const [first] = rows
  if (first === undefined) throw new NotEnded()
  const size = new JsonSize()
  const values: Json[] = []
  // Open one text at a time. Otherwise all texts would be in memory at once, together with their values.
  for (const row of rows) {
    if (row.item_index === null) continue
    const text = await openKept(
      sealer,
      outputBinding({ runId, stepId, itemIndex: row.item_index }),
      row.sealed,
    )
    if (text !== null && !size.add(text)) throw tooLarge(nameOf(stepId))
    values.push(text === null ? null : (JSON.parse(text) as Json))
  }
  const value: Json = first.item_count === null ? (values[0] ?? null) : values
  return { value, bytes: heapBytes(value) }
}

/** Null if there is none. Throws UnsealError. */
export async function openOutput(
  { sealer }: Pick<OutputReader, 'sealer'>,
  key: EffectKey,
  sealed: Buffer | null,
): Promise<Json> {
  const text = await openKept(sealer, outputBinding(key), sealed)
  return text === null ? null : (JSON.parse(text) as Json)
}

/** JSON text. Null if the call has no output, or it was removed. Throws UnsealError. */
export async function readOutputText(
  { db, sealer }: Pick<OutputReader, 'db' | 'sealer'>,
  key: EffectKey,
): Promise<string | null> {
  const row = await db
    .selectFrom('effects')
    .select('output_sealed')
    .where('run_id', '=', key.runId)
    .where('step_id', '=', key.stepId)
    .where('item_index', '=', key.itemIndex)
    .executeTakeFirst()
  return openKept(sealer, outputBinding(key), row?.output_sealed ?? null)
}

/** Throws ResourceExhausted if the inputs are too large. */
export async function readInputs(reader: OutputReader, runId: string): Promise<JsonObject> {
  return reader.runCaches.inputs.get(runId, async () => {
    const row = await reader.db
      .selectFrom('runs')
      .select(['id', 'inputs_sealed'])
      .where('id', '=', runId)
      .executeTakeFirstOrThrow()
    const text = await openInputsText(reader, row)
    if (isTooLarge(text)) throw tooLarge('the input')
    const value = JSON.parse(text) as JsonObject
    return { value, bytes: heapBytes(value) }
  })
}

export function forgetRun(caches: RunCaches, runId: string, stepIds: readonly string[]): void {
  caches.snapshots.delete(runId)
  caches.inputs.delete(runId)
  for (const stepId of stepIds) {
    caches.outputs.delete(`${runId}/${stepId}`)
    caches.outputSizes.delete(`${runId}/${stepId}`)
  }
}
