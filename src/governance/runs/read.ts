import { sql, type Selectable } from 'kysely'
import type { Context } from '../../context.ts'
import type { EffectState, RunStatus, StepStatus } from '../../contract/status.ts'
import type { InputLabels, Risk, RunsTable, RunStepsTable, StepError } from '../../db/schema/runs.ts'
import type { Json, JsonObject, Verdict } from '../../policy/types.ts'
import { DomainError, notFound } from '../errors.ts'
import { openKept, type Kept } from '../sealing/sealer.ts'
import { resultPlace } from '../sealing/places.ts'
import { openInputs } from './fixed-run.ts'
import type { EffectKey } from './ledger.ts'
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

async function openResult({ sealer }: Context, run: Selectable<RunsTable>): Promise<Json> {
  const kept = { sealed: run.result_sealed, plain: run.result }
  return JSON.parse((await openKept(sealer, resultPlace(run.id), kept)) ?? 'null') as Json
}

/** A run of this organization, or null. */
export async function readRun(
  context: Context,
  organizationId: string,
  runId: string,
): Promise<RunView | null> {
  const run = await context.db
    .selectFrom('runs')
    .selectAll()
    .where('id', '=', runId)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  if (run === undefined) return null
  const [steps, waits, approvals, outputs] = await Promise.all([
    readSteps(context, runId),
    readWaiting(context, runId),
    readRunApprovals(context, runId),
    readShownOutputs(context, runId),
  ])
  return {
    ...head(run),
    waiting_for: approvals.filter((each) => each.status === 'pending').map(waiting),
    inputs: await openInputs(context, run),
    input_labels: run.input_labels,
    outputs: await outputsByStep(context, steps, outputs),
    result: await openResult(context, run),
    steps: steps.map((step) => ({
      id: step.step_id,
      tool: step.tool,
      status: waitingStatus(step, waits),
      unresolved_items: unresolvedItems(step, waits),
      verdict: step.verdict,
      attempts: step.attempts,
      labels: step.labels,
      started_at: iso(step.started_at),
      finished_at: iso(step.finished_at),
      duration_ms: between(step.started_at, step.finished_at),
      error: step.error,
      approval_ids: approvals.filter((each) => each.step_id === step.step_id).map((each) => each.id),
    })),
  }
}

export type RunHead = Omit<
  RunView,
  'waiting_for' | 'inputs' | 'input_labels' | 'outputs' | 'result' | 'steps'
>

function head(run: Selectable<RunsTable>): RunHead {
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
  return viewPage(await readPage(query, 'id', page, (row) => row.id), head)
}

/** The whole output of a step, or of one item: what the templates of later steps see. */
export async function readStepOutput(
  context: Context,
  organizationId: string,
  runId: string,
  stepId: string,
): Promise<Json> {
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

interface WaitingCall {
  readonly step_id: string
  readonly item_index: number
  readonly state: EffectState
}

/** The run's calls that wait for a person. */
function readWaiting(context: Context, runId: string): Promise<WaitingCall[]> {
  return context.db
    .selectFrom('effects')
    .select(['step_id', 'item_index', 'state'])
    .where('run_id', '=', runId)
    .where('state', 'in', ['held', 'unknown_outcome'])
    .orderBy('item_index')
    .execute()
}

/** A `for_each` step waits as long as one of its items does, whatever has become of the others since. */
function waitingStatus(step: Selectable<RunStepsTable>, waits: readonly WaitingCall[]): StepStatus {
  if (step.item_count === null || step.finished_at !== null) return step.status
  const states = waits.filter((each) => each.step_id === step.step_id).map((each) => each.state)
  if (states.includes('unknown_outcome')) return 'unknown_outcome'
  return states.includes('held') ? 'held' : step.status
}

function unresolvedItems(step: Selectable<RunStepsTable>, waits: readonly WaitingCall[]): number[] {
  return waits
    .filter(
      ({ step_id, item_index, state }) =>
        step_id === step.step_id && item_index >= 0 && state === 'unknown_outcome',
    )
    .map((each) => each.item_index)
}

function readSteps(context: Context, runId: string) {
  return context.db
    .selectFrom('run_steps')
    .selectAll()
    .where('run_id', '=', runId)
    .orderBy('position')
    .execute()
}

function readRunApprovals(context: Context, runId: string) {
  return context.db
    .selectFrom('approvals')
    .select(['id', 'status', 'step_id', 'item_index', 'tool', 'rule_name', 'created_at', 'expires_at'])
    .where('run_id', '=', runId)
    .orderBy('id')
    .execute()
}

function waiting(approval: Awaited<ReturnType<typeof readRunApprovals>>[number]): WaitingView {
  return {
    approval_id: approval.id,
    step_id: approval.step_id,
    item_index: approval.item_index,
    tool: approval.tool,
    rule_name: approval.rule_name,
    since: approval.created_at.toISOString(),
    expires_at: iso(approval.expires_at),
  }
}

async function readShownOutputs(context: Context, runId: string) {
  const { rows } = await sql<ShownOutput>`
    select run_id as "runId", step_id as "stepId", item_index as "itemIndex", bytes, has_output,
           case when is_shown then output end as plain, case when is_shown then output_sealed end as sealed
    from (select *, value_bytes(output_sealed, output) as bytes,
                 state = 'skipped' or num_nonnulls(output_sealed, output) > 0 as has_output,
                 sum(value_bytes(output_sealed, output)) over (partition by step_id) <= ${shownOutputBytes} as is_shown
          from effects where run_id = ${runId} and finished_at is not null) as e
    order by step_id, item_index`.execute(context.db)
  return rows
}

interface ShownOutput extends EffectKey, Kept {
  readonly bytes: number
  readonly has_output: boolean
}

async function outputsByStep(
  context: Context,
  steps: Awaited<ReturnType<typeof readSteps>>,
  rows: readonly ShownOutput[],
): Promise<Record<string, Json>> {
  const outputs: [string, Json][] = []
  for (const step of steps) {
    const own = rows.filter((row) => row.stepId === step.step_id)
    // A step that ended badly has no output; an item that did keeps its place as null, as templates see it.
    if (own.length === 0 || (step.item_count === null && own[0]?.has_output === false)) continue
    const size = own.reduce((sum, row) => sum + row.bytes, 0)
    const values: Json[] = []
    for (const row of own) values.push(await openOutput(context, row, row))
    const value: Json =
      size > shownOutputBytes
        ? { truncated: true, size }
        : step.item_count === null
          ? (values[0] ?? null)
          : values
    outputs.push([step.step_id, value])
  }
  return Object.fromEntries(outputs)
}
