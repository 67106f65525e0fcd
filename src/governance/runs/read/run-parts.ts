import type { Selectable } from 'kysely'
import type { Db } from '../../../db/schema/index.ts'
import type { Context, UnsealingRuns, Reading, Unsealing } from '../../context.ts'
import type { StepStatus, EffectState } from '../../../contract/status.ts'
import type { RunsTable } from '../../../db/schema/runs.ts'
import type { Json } from '../../../policy/types.ts'
import { newestResolutions } from '../../../db/queries/runs.ts'
import { writeCursor } from '../../page.ts'
import type { Viewer } from '../../access/viewer.ts'
import { sightOf } from '../../approvals/sight.ts'
import { listInParts, type JsonParts } from '../../../shared/json-parts.ts'
import { resultBinding } from '../../sealing/bindings.ts'
import { openKept } from '../../sealing/sealer.ts'
import { withPresentReasons } from './status-reason.ts'
import { openInputs } from '../values/run-snapshot.ts'
import { readVersion } from '../values/version-cache.ts'
import { readChange } from '../values/version-change.ts'
import { readErrors } from './calls.ts'
import { errorOf } from './error-view.ts'
import { shownOutputs } from './output-parts.ts'
import {
  head,
  type RunHead,
  type RunView,
  type ShownRun,
  type StepView,
  workflowName,
  startedBy,
  madeAgainAs,
  type ItemCounts,
} from './read.ts'
import {
  positionBefore,
  stepPage,
  stepPages,
  type Step,
  type StepPage,
  type StepsWanted,
} from './step-pages.ts'
import type { Resolution, Sought } from '../../../contract/sought.ts'
import { mostResolutions, resolutionOf, soughtOf } from '../../approvals/unknown.ts'
import { firstWaiting, pendingInParts, type FirstWaiting } from './waiting-parts.ts'

/** In the order of the API's answer. `JsonParts` are read while the answer is sent. */
export type RunFields = RunHead &
  Pick<RunView, 'inputs' | 'values_hidden' | 'input_labels' | 'changed_since_your_last_run'> & {
    readonly waiting_for: JsonParts
    readonly outputs?: JsonParts
    readonly result?: Json
    readonly steps: JsonParts
    readonly next_cursor?: string | null
  }

const allSteps: StepsWanted = { limit: undefined, cursor: null }

/** Null if there is no such run. Lists are read while the caller takes them. A page may be short. */
export async function readRunFields(
  context: UnsealingRuns & Pick<Context, 'isTemporalAway'>,
  viewer: Viewer,
  runId: string,
  wanted: StepsWanted = allSteps,
): Promise<RunFields | null> {
  const beginning = await readBeginning(context, viewer.organizationId, runId, wanted)
  if (beginning === null) return null
  const { run, waiting, steps } = beginning
  const sight = await sightOf(context.db, viewer, run)
  const isOwn = viewer.userId === run.requested_by
  return {
    ...head(run),
    waiting_for: pendingInParts(context, { column: 'run_id', value: runId }, waiting),
    ...(sight.inputs ? { inputs: await openInputs(context, run) } : {}),
    input_labels: run.input_labels,
    ...(sight.hidden === null
      ? {
          outputs: shownOutputs(context, runId, () =>
            wanted.limit === undefined ? stepPages(context, runId, positionBefore(wanted)) : [steps.steps],
          ),
          result: await openResult(context, run),
        }
      : { values_hidden: sight.hidden }),
    steps: listInParts(() =>
      stepViews(context, run, sight.hidden === null, {
        ...steps,
        hasMore: steps.hasMore && wanted.limit === undefined,
      }),
    ),
    changed_since_your_last_run: isOwn
      ? await readChange(context.db, run.workflow_id, run.changed_in_version, run.requested_by)
      : null,
    ...(wanted.limit === undefined && wanted.cursor === null ? {} : { next_cursor: nextOf(steps, wanted) }),
  }
}

/** Null after the last page, and null if there is no limit. */
function nextOf({ steps, hasMore }: StepPage, { limit }: StepsWanted): string | null {
  const last = steps.at(-1)
  return hasMore && limit !== undefined && last !== undefined ? writeCursor(String(last.position)) : null
}

interface Beginning {
  readonly run: ShownRun
  readonly waiting: FirstWaiting
  readonly steps: StepRows
}

/** One snapshot, so that run and steps agree. No connection is held while the caller takes rows. */
function readBeginning(
  context: Reading & Pick<Context, 'isTemporalAway'>,
  organizationId: string,
  runId: string,
  wanted: StepsWanted,
): Promise<Beginning | null> {
  const after = positionBefore(wanted)
  return context.db
    .transaction()
    .setIsolationLevel('repeatable read')
    .setAccessMode('read only')
    .execute(async (db) => {
      const stored = await db
        .selectFrom('runs')
        .selectAll()
        .select([workflowName, startedBy, madeAgainAs])
        .where('id', '=', runId)
        .where('organization_id', '=', organizationId)
        .executeTakeFirst()
      if (stored === undefined) return null
      const [run] = await withPresentReasons({ ...context, db }, [stored])
      return {
        run: run ?? { ...stored, waiting_since: null },
        waiting: await firstWaiting(db, runId),
        steps: await withWaits(db, runId, await stepPage(db, runId, after, wanted.limit)),
      }
    })
}

async function openResult({ sealer }: Unsealing, run: Selectable<RunsTable>): Promise<Json> {
  return JSON.parse((await openKept(sealer, resultBinding(run.id), run.result_sealed)) ?? 'null') as Json
}

/** `waits`: held calls and unknown outcomes. `approvals`: the ids of all approvals of these steps. */
interface StepRows extends StepPage {
  readonly waits: readonly WaitingCall[]
  readonly approvals: Awaited<ReturnType<typeof readApprovalIds>>
}

async function withWaits(db: Db, runId: string, { steps, hasMore }: StepPage): Promise<StepRows> {
  if (steps.length === 0) return { steps, hasMore, waits: [], approvals: [] }
  const ids = steps.map((step) => step.step_id)
  return {
    steps,
    hasMore,
    waits: await readWaiting({ db }, runId, ids),
    approvals: await readApprovalIds(db, runId, ids),
  }
}

async function* stepViews(
  context: UnsealingRuns,
  run: Pick<ShownRun, 'id' | 'workflow_id' | 'workflow_version' | 'rerun_of'>,
  isShown: boolean,
  first: StepRows,
): AsyncGenerator<StepView> {
  const { dependsOn } = await readVersion(context, run.workflow_id, run.workflow_version)
  const of = { runId: run.id, isRerun: run.rerun_of !== null, dependsOn, isShown }
  yield* viewsOf(context, of, first)
  for (let page = first; page.hasMore;) {
    page = await withWaits(
      context.db,
      run.id,
      await stepPage(context.db, run.id, page.steps.at(-1)?.position),
    )
    yield* viewsOf(context, of, page)
  }
}

interface StepsOf {
  readonly runId: string
  readonly isRerun: boolean
  readonly dependsOn: ReadonlyMap<string, readonly string[]>
  /** Whether the person who asks may see values. */
  readonly isShown: boolean
}

async function* viewsOf(
  context: Unsealing,
  { runId, isRerun, dependsOn, isShown }: StepsOf,
  { steps, waits, approvals }: StepRows,
): AsyncGenerator<StepView> {
  const ids = steps.map((step) => step.step_id)
  const errors = await readErrors(context, runId, ids, isShown)
  const counts = await itemCountsOf(context.db, runId, steps)
  const earlier = isRerun ? await readEarlier(context.db, runId, ids) : new Map<string, never>()
  const resolved = await readResolutions(context.db, runId, ids)
  const waitsOf = Map.groupBy(waits, (each) => each.step_id)
  const approvalsOf = Map.groupBy(approvals, (each) => each.step_id)
  for (const step of steps) {
    const failed = errors.get(step.step_id)
    const own = waitsOf.get(step.step_id) ?? []
    yield {
      id: step.step_id,
      kind: step.kind,
      tool: step.tool,
      summary: step.summary,
      status: waitingStatus(step, own),
      depends_on: dependsOn.get(step.step_id) ?? [],
      items: counts.get(step.step_id) ?? null,
      unresolved_items: own
        .filter(({ item_index, state }) => item_index >= 0 && state === 'unknown_outcome')
        .map((each) => each.item_index),
      waits_until: waitsUntil(own),
      verdict: step.verdict,
      attempts: step.attempts,
      labels: step.labels,
      started_at: step.started_at?.toISOString() ?? null,
      finished_at: step.finished_at?.toISOString() ?? null,
      duration_ms:
        step.started_at === null || step.finished_at === null
          ? null
          : step.finished_at.getTime() - step.started_at.getTime(),
      error: failed?.own ?? (step.error === null ? null : errorOf(step.error)),
      failed_items: failed?.failed_items ?? [],
      more_failed_items: failed?.more_failed_items ?? 0,
      approval_ids: (approvalsOf.get(step.step_id) ?? []).map((each) => each.id),
      looking: lookingFor(runId, own),
      resolutions: resolved.get(step.step_id) ?? [],
      reused_from: earlier.get(step.step_id)?.reused_from ?? null,
      repeats: earlier.get(step.step_id)?.repeats ?? null,
    }
  }
}

/** What earlier runs had done of these steps; of several items, the first counts. */
async function readEarlier(db: Db, runId: string, stepIds: readonly string[]) {
  const rows = await db
    .selectFrom('effects')
    .select(['step_id', (eb) => eb.fn.min('reused_from').as('reused_from')])
    .select((eb) => eb.fn.min('repeats').as('repeats'))
    .where('run_id', '=', runId)
    .where('step_id', 'in', stepIds)
    .groupBy('step_id')
    .execute()
  return new Map(rows.map((row) => [row.step_id, row]))
}

type WaitingCall = Awaited<ReturnType<typeof readWaiting>>[number]

function readWaiting({ db }: Reading, runId: string, stepIds: readonly string[]) {
  return db
    .selectFrom('effects')
    .select(['step_id', 'item_index', 'tool', 'state', 'until', 'sent_at'])
    .where('run_id', '=', runId)
    .where('step_id', 'in', stepIds)
    .where(({ eb, or, and }) =>
      or([
        eb('state', 'in', ['held', 'unknown_outcome']),
        and([eb('state', '=', 'intent'), eb('sent_at', 'is not', null)]),
      ]),
    )
    .orderBy('item_index')
    .execute()
}

function readApprovalIds(db: Db, runId: string, stepIds: readonly string[]) {
  return db
    .selectFrom('approvals')
    .select(['id', 'step_id'])
    .where('run_id', '=', runId)
    .where('step_id', 'in', stepIds)
    .orderBy('id')
    .execute()
}

/** Only a call that was sent before, and is decided again, is looked for. */
function lookingFor(runId: string, own: readonly WaitingCall[]): Sought | null {
  const call = own.find(({ state }) => state === 'intent')
  return call === undefined
    ? null
    : soughtOf({ runId, stepId: call.step_id, itemIndex: call.item_index }, call.tool, call.sent_at)
}

/** By step. Of each step the newest `mostResolutions`. */
async function readResolutions(
  db: Db,
  runId: string,
  stepIds: readonly string[],
): Promise<ReadonlyMap<string, Resolution[]>> {
  const { rows } = await newestResolutions(runId, stepIds, mostResolutions).execute(db)
  return new Map([...Map.groupBy(rows, (row) => row.step_id)].map(([id, own]) => [id, own.map(resolutionOf)]))
}

/** Returns the first time at which one of the waiting items, or the step itself, goes on. */
function waitsUntil(own: readonly WaitingCall[]): string | null {
  const times = own.flatMap(({ until }) => (until === null ? [] : [until.getTime()]))
  return times.length === 0 ? null : new Date(Math.min(...times)).toISOString()
}

/** In an open `for_each` step, an unknown outcome of an item comes first, and then a held item. */
function waitingStatus(step: Step, own: readonly WaitingCall[]): StepStatus {
  if (step.item_count === null || step.finished_at !== null) return step.status
  const states = own.map((each) => each.state)
  if (states.includes('unknown_outcome')) return 'unknown_outcome'
  return states.includes('held') ? 'held' : step.status
}

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
