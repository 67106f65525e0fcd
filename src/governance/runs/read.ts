import type { Selectable } from 'kysely'
import type { Context } from '../../context.ts'
import type { RunStatus, StepStatus } from '../../contract/status.ts'
import type { InputLabels, Risk, RunsTable, RunStepsTable, StepError } from '../../db/schema/runs.ts'
import type { Json, JsonObject, Verdict } from '../../policy/types.ts'
import { DomainError, notFound } from '../errors.ts'
import { openOutput } from './outputs.ts'
import { readPage, viewPage, type Page, type PageRequest } from '../page.ts'

/** A run as the API shows it (contract section 4). Times are ISO 8601 UTC, durations milliseconds. */
export interface RunView {
  readonly id: string
  readonly execution_id: string
  readonly workflow_id: string
  readonly workflow_version: number
  readonly organization_id: string
  readonly status: RunStatus
  readonly status_reason: string
  readonly waiting_for: readonly WaitingView[]
  readonly requested_by: string
  readonly inputs: JsonObject
  readonly input_labels: InputLabels
  readonly outputs: { readonly [stepId: string]: Json }
  readonly result: Json
  readonly steps: readonly StepView[]
  readonly risk: Risk
  readonly created_at: string
  readonly started_at: string | null
  readonly finished_at: string | null
  /** When inputs, outputs, result and events were removed, after RETENTION_DAYS. */
  readonly data_removed_at: string | null
  readonly duration_ms: number | null
  readonly nodes_executed: number
  readonly nodes_failed: number
  readonly cost: number
}

export interface WaitingView {
  readonly approval_id: string
  readonly step_id: string | null
  readonly item_index: number | null
  readonly tool: string | null
  readonly rule_name: string | null
  readonly since: string
  readonly expires_at: string | null
}

export interface StepView {
  readonly id: string
  readonly tool: string
  readonly status: StepStatus
  /** Items of a `for_each` step whose outcome nobody knows: the `item_index` that `resolve` takes. */
  readonly unresolved_items: readonly number[]
  readonly verdict: Verdict | null
  readonly attempts: number
  readonly labels: readonly string[]
  readonly started_at: string | null
  readonly finished_at: string | null
  readonly duration_ms: number | null
  readonly error: StepError | null
  readonly approval_ids: readonly string[]
}

/** The most bytes of a step's output that are shown in the run itself; `GET .../steps/{step}/output` gives it whole. */
export const shownOutputBytes = 256 * 1024

const iso = (date: Date | null): string | null => date?.toISOString() ?? null
const between = (from: Date | null, to: Date | null): number | null =>
  from === null || to === null ? null : to.getTime() - from.getTime()

export type RunHead = Omit<
  RunView,
  'waiting_for' | 'inputs' | 'input_labels' | 'outputs' | 'result' | 'steps'
>

export function head(run: Selectable<RunsTable>): RunHead {
  return {
    id: run.id,
    execution_id: run.id,
    workflow_id: run.workflow_id,
    workflow_version: run.workflow_version,
    organization_id: run.organization_id,
    status: run.status,
    status_reason: run.status_reason,
    requested_by: run.requested_by,
    risk: run.risk,
    created_at: run.created_at.toISOString(),
    started_at: iso(run.started_at),
    finished_at: iso(run.finished_at),
    data_removed_at: iso(run.data_removed_at),
    duration_ms: between(run.started_at ?? run.created_at, run.finished_at),
    nodes_executed: run.nodes_executed,
    nodes_failed: run.nodes_failed,
    cost: Number(run.cost),
  }
}

export interface RunFilters {
  readonly workflow_id?: string | undefined
  readonly status?: RunStatus | undefined
  readonly requested_by?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

/** Runs, newest first, without their data: inputs, outputs and steps are in each run's own answer. */
export async function listRuns(
  context: Context,
  organizationId: string,
  filters: RunFilters,
  page: PageRequest,
): Promise<Page<RunHead>> {
  let query = context.db.selectFrom('runs').selectAll().where('organization_id', '=', organizationId)
  if (filters.workflow_id !== undefined) query = query.where('workflow_id', '=', filters.workflow_id)
  if (filters.status !== undefined) query = query.where('status', '=', filters.status)
  if (filters.requested_by !== undefined) query = query.where('requested_by', '=', filters.requested_by)
  if (filters.since !== undefined) query = query.where('created_at', '>=', filters.since)
  if (filters.until !== undefined) query = query.where('created_at', '<', filters.until)
  return viewPage(await readPage(context.db, query, 'id', page, (row) => row.id), head)
}

/** The whole output of a step, or of one item: what the templates of later steps see. */
export async function readStepOutput(
  context: Context,
  organizationId: string,
  runId: string,
  stepId: string,
): Promise<Json> {
  const step = await requireStep(context, organizationId, runId, stepId)
  const rows = await context.db
    .selectFrom('effects')
    .select(['item_index', 'output as plain', 'output_sealed as sealed'])
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .orderBy('item_index')
    .execute()
  const values: Json[] = []
  for (const row of rows)
    values.push(await openOutput(context, { runId, stepId, itemIndex: row.item_index }, row))
  return step.item_count === null ? (values[0] ?? null) : values
}

/** A step of a run whose outputs are kept. Throws `not_found`. */
export async function requireStep(
  context: Context,
  organizationId: string,
  runId: string,
  stepId: string,
): Promise<{ readonly item_count: number | null }> {
  const step = await context.db
    .selectFrom('run_steps as s')
    .innerJoin('runs as r', 'r.id', 's.run_id')
    .select(['s.item_count', 'r.data_removed_at'])
    .where('r.id', '=', runId)
    .where('r.organization_id', '=', organizationId)
    .where('s.step_id', '=', stepId)
    .executeTakeFirst()
  if (step === undefined) throw notFound('step', stepId)
  if (step.data_removed_at !== null)
    throw new DomainError(
      'not_found',
      `the data of run \`${runId}\` was removed at ${step.data_removed_at.toISOString()}: it had been kept for RETENTION_DAYS`,
    )
  return step
}

/** Steps that are read at once; each can have 10,000 items that wait. */
const mostSteps = 20

export type Step = Selectable<RunStepsTable>

/** A run's steps, some at a time, in their order. */
export async function* stepPages({ db }: Pick<Context, 'db'>, runId: string): AsyncGenerator<Step[]> {
  for (let after = -1; ;) {
    const steps = await db
      .selectFrom('run_steps')
      .selectAll()
      .where('run_id', '=', runId)
      .where('position', '>', after)
      .orderBy('position')
      .limit(mostSteps)
      .execute()
    if (steps.length > 0) yield steps
    if (steps.length < mostSteps) return
    after = steps.at(-1)?.position ?? after
  }
}
