import { sql } from 'kysely'
import type { Db } from '../../../db/schema/index.ts'
import type { Unsealing } from '../../context.ts'
import { entriesInParts, JsonParts, listInParts } from '../../../shared/json-parts.ts'
import { outputBinding } from '../../sealing/bindings.ts'
import { openKept } from '../../sealing/sealer.ts'
import { requireStep, shownOutputBytes } from './read.ts'
import type { Step } from './step-pages.ts'

/** A single output with more bytes is read whole. */
const mostRows = 1_000
const mostBytes = 1024 ** 2

/** As templates of later steps see it. An item without an output has null. Throws `not_found`. */
export async function readOutputParts(
  context: Unsealing,
  organizationId: string,
  runId: string,
  stepId: string,
): Promise<JsonParts> {
  const { item_count: count } = await requireStep(context.db, organizationId, runId, stepId)
  const values = (): AsyncIterable<ItemParts> => outputsOf(context, runId, stepId)
  return count === null ? firstOf(values) : listInParts(() => withGaps(values(), count))
}

interface ItemParts {
  readonly item: number
  readonly value: JsonParts
}

/** In the order of the items. Yields null for an item without a row. */
async function* withGaps(values: AsyncIterable<ItemParts>, count: number): AsyncGenerator<JsonParts> {
  let next = 0
  for await (const { item, value } of values) {
    for (; next < item; next += 1) yield textAs(null)
    yield value
    next = item + 1
  }
  for (; next < count; next += 1) yield textAs(null)
}

const firstOf = (values: () => AsyncIterable<ItemParts>): JsonParts =>
  new JsonParts(async function* () {
    let isThere = false
    for await (const { value } of values()) {
      isThere = true
      yield* value
      break
    }
    if (!isThere) yield 'null'
  })

const textAs = (text: string | null): JsonParts =>
  new JsonParts(async function* () {
    yield text ?? 'null'
  })

async function* outputsOf(context: Unsealing, runId: string, stepId: string): AsyncGenerator<ItemParts> {
  for (let after = -2; ;) {
    const { rows: sizes } = await sql<{ item_index: number; bytes: number }>`
      select item_index, value_bytes(output_sealed) as bytes from effects
      where run_id = ${runId} and step_id = ${stepId} and item_index > ${after}
      order by item_index limit ${mostRows}`.execute(context.db)
    let bytes = 0
    const fitting = sizes.filter((row, index) => (bytes += row.bytes) <= mostBytes || index === 0)
    const last = fitting.at(-1)
    if (last === undefined) return
    const rows = await context.db
      .selectFrom('effects')
      .select(['item_index', 'output_sealed as sealed'])
      .where('run_id', '=', runId)
      .where('step_id', '=', stepId)
      .where('item_index', '>', after)
      .where('item_index', '<=', last.item_index)
      .orderBy('item_index')
      .execute()
    for (const row of rows) {
      const key = { runId, stepId, itemIndex: row.item_index }
      yield { item: row.item_index, value: textAs(await openText(context, key, row.sealed)) }
    }
    after = last.item_index
  }
}

const openText = (
  { sealer }: Unsealing,
  key: Parameters<typeof outputBinding>[0],
  sealed: Buffer | null,
): Promise<string | null> => openKept(sealer, outputBinding(key), sealed)

/** For a large output, the answer contains only the size. */
export function shownOutputs(
  context: Unsealing,
  runId: string,
  pages: () => AsyncIterable<readonly Step[]> | Iterable<readonly Step[]>,
): JsonParts {
  return entriesInParts(async function* () {
    for await (const steps of pages()) {
      const sizes = await readSizes(context.db, runId, steps)
      // A step that ended badly is shown as null, and a `for_each` without items as `[]`.
      const shown = steps.flatMap((step) =>
        step.finished_at === null ? [] : [{ step, size: sizes.get(step.step_id) ?? none }],
      )
      for (const batch of inBatches(shown)) {
        const texts = await readTexts(context, runId, batch)
        for (const { step, size } of batch) {
          const isLarge = size.bytes > shownOutputBytes
          const own = texts.get(step.step_id)
          const value = isLarge ? { truncated: true, size: size.bytes } : shownValue(step, own ?? new Map())
          yield [step.step_id, value] as const
        }
      }
    }
  })
}

/** By item index, or -1 for a step without items. */
type Texts = ReadonlyMap<number, string | null>

function shownValue({ item_count: count }: Step, texts: Texts): JsonParts {
  if (count === null) return textAs(texts.get(-1) ?? null)
  // An item without a row never began. Such an item gets null, so that each output is at the index of its item.
  const items = Array.from({ length: count }, (_, item) => texts.get(item) ?? 'null')
  return textAs(`[${items.join(',')}]`)
}

interface Size {
  readonly bytes: number
}
const none: Size = { bytes: 0 }

interface Shown {
  readonly step: Step
  readonly size: Size
}

async function readSizes(db: Db, runId: string, steps: readonly Step[]): Promise<ReadonlyMap<string, Size>> {
  const { rows } = await sql<Size & { readonly step_id: string }>`
    select step_id, sum(value_bytes(output_sealed))::bigint as bytes
    from effects
    where run_id = ${runId} and step_id = any(${steps.map((step) => step.step_id)}) and finished_at is not null
    group by step_id`.execute(db)
  return new Map(rows.map((row) => [row.step_id, row]))
}

function inBatches(shown: readonly Shown[]): Shown[][] {
  const batches: Shown[][] = []
  let bytes = Infinity
  for (const each of shown) {
    const more = each.size.bytes > shownOutputBytes ? 0 : each.size.bytes
    if ((bytes += more) > mostBytes) {
      batches.push([])
      bytes = more
    }
    batches.at(-1)?.push(each)
  }
  return batches
}

async function readTexts(
  context: Unsealing,
  runId: string,
  batch: readonly Shown[],
): Promise<ReadonlyMap<string, Texts>> {
  const texts = new Map<string, Map<number, string | null>>()
  const ids = batch.filter(({ size }) => size.bytes <= shownOutputBytes).map(({ step }) => step.step_id)
  if (ids.length === 0) return texts
  const rows = await context.db
    .selectFrom('effects')
    .select(['step_id', 'item_index', 'output_sealed as sealed'])
    .where('run_id', '=', runId)
    .where('step_id', 'in', ids)
    .where('finished_at', 'is not', null)
    .orderBy('step_id')
    .orderBy('item_index')
    .execute()
  for (const row of rows) {
    const text = await openText(
      context,
      { runId, stepId: row.step_id, itemIndex: row.item_index },
      row.sealed,
    )
    const known = texts.get(row.step_id) ?? new Map<number, string | null>()
    texts.set(row.step_id, known.set(row.item_index, text))
  }
  return texts
}
