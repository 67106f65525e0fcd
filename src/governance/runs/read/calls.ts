import { sql } from 'kysely'
import { getTool } from '../../../tools/index.ts'
import { isOutcome, type EffectState } from '../../../contract/status.ts'
import { readFailedCalls } from '../../../db/queries/runs.ts'
import type { Db } from '../../../db/schema/index.ts'
import type { StepError } from '../../../db/schema/runs.ts'
import type { Json, JsonObject } from '../../../policy/types.ts'
import type { ValuesHidden, Viewer } from '../../access/viewer.ts'
import { briefColumns, briefOf, type ApprovalBrief } from '../../approvals/brief.ts'
import { inPreviewOrder } from '../../approvals/preview.ts'
import { sightOf } from '../../approvals/sight.ts'
import { readVotes } from '../../approvals/votes.ts'
import type { Unsealing } from '../../context.ts'
import type { EffectKey } from '../../../contract/ids.ts'
import { pageOf, readCursor, type Page, type PageRequest } from '../../page.ts'
import { errorBinding } from '../../sealing/bindings.ts'
import { openParams } from '../values/sealed-params.ts'
import { errorOf, type ErrorView, type FailedItem } from './error-view.ts'
import { requireStep } from './read.ts'

/** Times are in ISO 8601 (UTC). Durations are in milliseconds. */
export interface CallView {
  /** Is null for a step without `for_each`. */
  readonly item_index: number | null
  readonly status: EffectState
  readonly attempts: number
  /** Resolved. Is absent for people who may not see values, and so is `item`. */
  readonly params?: JsonObject
  readonly item?: Json
  readonly values_hidden?: ValuesHidden
  readonly params_hash: string | null
  readonly labels: readonly string[]
  /** The host to which the newest decision sent the call. */
  readonly destination: string | null
  readonly error: ErrorView | null
  /** The time for which a step that waits is held. Null: it waits for none. */
  readonly waits_until: string | null
  readonly decision_id: string | null
  readonly approval_id: string | null
  readonly approval: ApprovalBrief | null
  readonly started_at: string | null
  readonly finished_at: string | null
  readonly duration_ms: number | null
}

/** A page has at most this many bytes of sealed parameters. A single call with more bytes gets a page of its own. */
const mostBytes = 8 * 1024 ** 2

/** In the order of the items. Throws `not_found` as `requireStep` does. */
export async function readCalls(
  context: Unsealing,
  viewer: Viewer,
  { runId, stepId }: { readonly runId: string; readonly stepId: string },
  page: PageRequest,
): Promise<Page<CallView>> {
  await requireStep(context.db, viewer.organizationId, runId, stepId)
  const run = await context.db
    .selectFrom('runs')
    .select(['id', 'requested_by'])
    .where('id', '=', runId)
    .executeTakeFirstOrThrow()
  const after = itemAfter(page.cursor)
  const { rows: sizes } = await sql<{ item_index: number; bytes: number }>`
    select item_index, coalesce(octet_length(params_sealed), 0) as bytes from effects
    where run_id = ${runId} and step_id = ${stepId} and item_index > ${after}
    order by item_index limit ${page.limit + 1}`.execute(context.db)
  let bytes = 0
  const fitting = sizes.filter((row, at) => (bytes += row.bytes) <= mostBytes || at === 0)
  const limit = Math.min(page.limit, fitting.length)
  const last = sizes[limit - 1]
  if (last === undefined) return { data: [], next_cursor: null }
  const rows = await context.db
    .selectFrom('effects as e')
    .leftJoin('decisions as d', 'd.id', 'e.decision_id')
    .leftJoin('approvals as a', 'a.id', 'e.approval_id')
    .selectAll('e')
    .select('d.destination')
    .select(briefColumns)
    .where('e.run_id', '=', runId)
    .where('e.step_id', '=', stepId)
    .where('e.item_index', '>', after)
    .where('e.item_index', '<=', last.item_index)
    .orderBy('e.item_index')
    .execute()
  const { hidden } = await sightOf(context.db, viewer, run)
  const votes = await readVotes(context, [...new Set(rows.flatMap(({ approval_id: id }) => id ?? []))])
  const views: CallView[] = []
  for (const row of rows) {
    const key = { runId, stepId, itemIndex: row.item_index }
    views.push({
      item_index: row.item_index < 0 ? null : row.item_index,
      status: row.state,
      attempts: row.bodies + (row.state === 'intent' && !row.body_counted && row.sent_at === null ? 1 : 0),
      ...(hidden === null
        ? await shownParams(context, key, row.params_sealed, row.tool)
        : { values_hidden: hidden }),
      params_hash: row.params_hash,
      labels: row.labels,
      destination: row.destination,
      error: await errorView(context, key, row, hidden === null),
      waits_until: row.state === 'held' ? (row.until?.toISOString() ?? null) : null,
      decision_id: row.decision_id,
      approval_id: row.approval_id,
      approval: row.approval_id === null ? null : briefOf(row.approval_id, row, votes),
      started_at: row.intent_at?.toISOString() ?? null,
      finished_at: row.finished_at?.toISOString() ?? null,
      duration_ms: row.duration_ms,
    })
  }
  // `sizes` also contains the calls that do not fit in this page, so it shows whether there is a next page.
  const { next_cursor } = pageOf(
    sizes,
    limit,
    (row) => String(row.item_index),
    () => null,
  )
  return { data: views, next_cursor }
}

function itemAfter(cursor: string | null): number {
  const text = readCursor(cursor, /^(-1|\d{1,5})$/)
  return text === null ? -2 : Number(text)
}

async function shownParams(
  { sealer }: Unsealing,
  key: EffectKey,
  sealed: Buffer | null,
  tool: string | null = null,
): Promise<Pick<CallView, 'params' | 'item'>> {
  if (sealed === null) return {}
  const { params, item } = await openParams(sealer, key, sealed)
  const shown = tool === null ? params : inPreviewOrder(getTool(tool), params)
  return { params: shown, ...(item === undefined ? {} : { item }) }
}

interface ErrorRow {
  readonly error: StepError | null
  readonly error_detail_sealed: Buffer | null
}

async function errorView(
  { sealer }: Unsealing,
  key: EffectKey,
  { error, error_detail_sealed: sealed }: ErrorRow,
  isShown: boolean,
): Promise<ErrorView | null> {
  if (error === null) return null
  if (sealed === null || !isShown) return errorOf(error)
  return { ...errorOf(error), detail: JSON.parse(await sealer.open(errorBinding(key), sealed)) as JsonObject }
}

export interface StepErrors {
  readonly failed_items: readonly FailedItem[]
  readonly more_failed_items: number
  /** For a step without `for_each`. Is null if the step has no error. */
  readonly own: ErrorView | null
}

/** The API's answer about a run lists at most this many failed items of one step. */
export const mostFailedItems = 20

/** In bytes. The parameters of an item with more are not opened, so it has no `value`. */
export const mostSealedBytes = 16 * 1024

/** By the id of the step. */
export async function readErrors(
  context: Unsealing,
  runId: string,
  stepIds: readonly string[],
  isShown: boolean,
): Promise<ReadonlyMap<string, StepErrors>> {
  const rows = await readErrorRows(context.db, runId, stepIds)
  const errors = new Map<string, { failed: FailedItem[]; total: number; own: ErrorView | null }>()
  for (const row of rows) {
    const key = { runId, stepId: row.step_id, itemIndex: row.item_index }
    const error = await errorView(context, key, row, isShown)
    if (error === null) continue
    const step = errors.get(row.step_id) ?? { failed: [], total: 0, own: null }
    errors.set(row.step_id, step)
    if (row.item_index < 0) {
      step.own = error
      continue
    }
    step.total = row.total
    const { item } = isShown ? await shownParams(context, key, row.params_sealed) : {}
    const status = isOutcome(row.state) ? row.state : 'retry'
    const value = item === undefined ? {} : { value: item }
    step.failed.push({ item_index: row.item_index, status, error, ...value })
  }
  return new Map(
    [...errors].map(([id, { failed, total, own }]) => [
      id,
      { failed_items: failed, more_failed_items: Math.max(0, total - failed.length), own },
    ]),
  )
}

interface FailedRow extends ErrorRow {
  readonly step_id: string
  readonly item_index: number
  readonly state: EffectState
  readonly total: number
  readonly params_sealed: Buffer | null
}

async function readErrorRows(db: Db, runId: string, stepIds: readonly string[]): Promise<FailedRow[]> {
  const { rows } = await readFailedCalls<FailedRow>({
    runId,
    stepIds,
    mostSealedBytes,
    mostFailedItems,
  }).execute(db)
  return rows
}
