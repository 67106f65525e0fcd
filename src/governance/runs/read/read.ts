import { sql, type ExpressionBuilder, type Selectable, type SelectQueryBuilder } from 'kysely'
import type { Database, Db } from '../../../db/schema/index.ts'
import type { Context, Reading, Unsealing } from '../../context.ts'
import {
  runEnded,
  type ApprovalKind,
  type EffectState,
  type RunStatus,
  type StepStatus,
} from '../../../contract/status.ts'
import type { InputLabels, Risk, RunsTable } from '../../../db/schema/runs.ts'
import type { ShownSeat } from '../../../policy/seats.ts'
import type { Json, JsonObject, Verdict } from '../../../policy/types.ts'
import type { ValuesHidden } from '../../access/viewer.ts'
import { DomainError, notFound } from '../../errors.ts'
import { openOutput } from '../values/outputs.ts'
import type { Resolution, Sought } from '../../../contract/sought.ts'
import type { VersionChange } from '../values/version-change.ts'
import type { ErrorView, FailedItem } from './error-view.ts'
import { withPresentReasons } from './status-reason.ts'
import { hasPart, pageQuery, readPage, type Page, type PageRequest } from '../../page.ts'

/** Times are in ISO 8601 (UTC). Durations are in milliseconds. */
export interface RunView {
  readonly id: string
  readonly execution_id: string
  readonly workflow_id: string
  /** The current name. Is null for an agent's session. */
  readonly workflow_name: string | null
  readonly workflow_version: number
  readonly organization_id: string
  readonly status: RunStatus
  readonly status_reason: string
  readonly waiting_for: readonly WaitingView[]
  /** When the oldest open approval or unknown outcome began to wait. Is null if there is none. */
  readonly waiting_since: string | null
  readonly requested_by: string
  /** From the time when the run was accepted. */
  readonly requester_email: string
  /** Whose firing started it. Is null when the firing is no longer kept. */
  readonly trigger: StartedBy | null
  /** The run from which this one was made again. */
  readonly rerun_of: string | null
  /** The newest run that was made again from this one. */
  readonly made_again_as: string | null
  /** Is absent for people who may not see it (approvals/sight.ts), and so are `outputs` and `result`. */
  readonly inputs?: JsonObject
  readonly input_labels: InputLabels
  readonly outputs?: { readonly [stepId: string]: Json }
  readonly result?: Json
  /** Is present if values are absent. */
  readonly values_hidden?: ValuesHidden
  readonly steps: readonly StepView[]
  /** Is null after the last step. Is absent if the request asked for all steps. */
  readonly next_cursor?: string | null
  readonly risk: Risk
  readonly created_at: string
  readonly started_at: string | null
  readonly finished_at: string | null
  /** When inputs, outputs, result and events were removed, after RETENTION_DAYS. Is null before. */
  readonly data_removed_at: string | null
  readonly duration_ms: number | null
  readonly nodes_executed: number
  readonly nodes_failed: number
  readonly cost: number
  /** By another person, if this is the requester's first run after it. Is null for other readers. */
  readonly changed_since_your_last_run: VersionChange | null
}

/** The id and the present name of a trigger, and the workflow that it is made for. */
interface StartedBy {
  readonly id: string
  readonly name: string
  readonly workflow_id: string
}

export interface WaitingView {
  /** The approver who asks for changes of the call; null if it waits for anything else. */
  readonly changes_requested: { readonly email: string; readonly comment: string } | null
  readonly kind: ApprovalKind | 'resolution'
  /** Is null for an unknown outcome. */
  readonly approval_id: string | null
  readonly step_id: string | null
  readonly item_index: number | null
  readonly tool: string | null
  readonly rule_name: string | null
  /** The lowest role that may decide. Null if only groups decide. */
  readonly approver: 'admin' | 'owner' | null
  /** All of them are needed, by different people. */
  readonly approvers: readonly ShownSeat[]
  /** Why nobody can give the approval now, and what to do. */
  readonly cannot_be_given: string | null
  readonly since: string
  readonly expires_at: string | null
  /** The route that resolves an unknown outcome. Is null for an approval. */
  readonly resolve_with: string | null
  /** The attempt whose outcome is unknown. Is null for an approval. */
  readonly attempt: number | null
  /** What is known about a call with an unknown outcome. Is null for an approval. */
  readonly sought: Sought | null
}

export interface StepView {
  readonly id: string
  /** The name of the step's kind (src/steps). */
  readonly kind: string
  /** Null: the step calls no tool. */
  readonly tool: string | null
  /** The step's `summary` in the definition. */
  readonly summary: string | null
  readonly status: StepStatus
  /** The time for which the step waits, or the first of these times of its items. */
  readonly waits_until: string | null
  /** The steps that this step waits for: the steps in `depends_on`, and the steps whose values this step uses. */
  readonly depends_on: readonly string[]
  /** An item that has not begun counts only in `total`. Null without `for_each`, and before the count. */
  readonly items: ItemCounts | null
  /** Items with an unknown outcome. `resolve` accepts these indexes as `item_index`. */
  readonly unresolved_items: readonly number[]
  readonly verdict: Verdict | null
  readonly attempts: number
  readonly labels: readonly string[]
  readonly started_at: string | null
  readonly finished_at: string | null
  readonly duration_ms: number | null
  /** From the last attempt. Is also shown while the call is tried again. */
  readonly error: ErrorView | null
  /** They ended badly or are tried again. `more_failed_items` is the number of further ones. */
  readonly failed_items: readonly FailedItem[]
  readonly more_failed_items: number
  readonly approval_ids: readonly string[]
  /** A call was sent and got no answer, and is looked for now; of several items, the first. */
  readonly looking: Sought | null
  /** What people said about calls with an unknown outcome: the newest `mostResolutions`. */
  readonly resolutions: readonly Resolution[]
  /** The run whose outcome the step took without being made; of several items, the first. */
  readonly reused_from: string | null
  /** The call of an earlier run with the same parameters, as `RUN/STEP/ITEM`. */
  readonly repeats: string | null
}

export interface ItemCounts {
  readonly total: number
  readonly states: Readonly<Partial<Record<EffectState, number>>>
}

/** In the answer about a run. `GET .../steps/{step}/output` returns a larger output. */
export const shownOutputBytes = 256 * 1024

const iso = (date: Date | null): string | null => date?.toISOString() ?? null
const between = (from: Date | null, to: Date | null): number | null =>
  from === null || to === null ? null : to.getTime() - from.getTime()

export type RunHead = Omit<
  RunView,
  | 'waiting_for'
  | 'inputs'
  | 'input_labels'
  | 'outputs'
  | 'result'
  | 'steps'
  | 'next_cursor'
  | 'changed_since_your_last_run'
>

export type ShownRun = Selectable<RunsTable> & {
  readonly workflow_name: string | null
  readonly trigger: StartedBy | null
  readonly made_again_as: string | null
  readonly waiting_since: Date | null
}

export const workflowName = (eb: ExpressionBuilder<Database, 'runs'>) =>
  eb
    .selectFrom('workflows')
    .select('workflows.name')
    .whereRef('workflows.id', '=', 'runs.workflow_id')
    .as('workflow_name')

export const startedBy = (eb: ExpressionBuilder<Database, 'runs'>) =>
  eb
    .selectFrom('triggers as t')
    .select(
      sql<StartedBy>`json_build_object('id', t.id, 'name', t.name, 'workflow_id', t.workflow_id)`.as(
        'trigger',
      ),
    )
    .where(
      sql<boolean>`t.id = coalesce(runs.poll_of, (select trigger_id from trigger_firings where run_id = runs.id limit 1))`,
    )
    .as('trigger')

export const madeAgainAs = (eb: ExpressionBuilder<Database, 'runs'>) =>
  eb
    .selectFrom('runs as again')
    .select((max) => max.fn.max<string | null>('again.id').as('id'))
    .whereRef('again.rerun_of', '=', 'runs.id')
    .as('made_again_as')

export function head(run: ShownRun): RunHead {
  return {
    id: run.id,
    execution_id: run.id,
    workflow_id: run.workflow_id,
    workflow_name: run.workflow_name,
    workflow_version: run.workflow_version,
    organization_id: run.organization_id,
    status: run.status,
    status_reason: run.status_reason,
    waiting_since: iso(run.waiting_since),
    requested_by: run.requested_by,
    requester_email: run.requester_email,
    trigger: run.trigger,
    rerun_of: run.rerun_of,
    made_again_as: run.made_again_as,
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
  /** Part of the name; upper or lower case does not matter. */
  readonly workflow_name?: string | undefined
  /** Part of the address; upper or lower case does not matter. */
  readonly requester_email?: string | undefined
  readonly since?: Date | undefined
  readonly until?: Date | undefined
}

/** Newest first, without inputs, outputs and steps. */
export async function listRuns(
  context: Reading & Pick<Context, 'isTemporalAway'>,
  organizationId: string,
  filters: RunFilters,
  page: PageRequest,
): Promise<Page<RunHead>> {
  const { workflow_name: name } = filters
  const all = context.db.selectFrom('runs').where('runs.organization_id', '=', organizationId)
  const wanted = filtered(all, filters)
  const query = wanted
    .selectAll()
    .select([workflowName, startedBy, madeAgainAs])
    .$if(name !== undefined, (some) =>
      some.where('runs.id', 'in', ofNamed(context.db, organizationId, name as string, wanted, page)),
    )
  const rows = await readPage(context.db, query, 'run', page, 'runs.id')
  return { data: (await withPresentReasons(context, rows.data)).map(head), next_cursor: rows.next_cursor }
}

function filtered<O>(query: SelectQueryBuilder<Database, 'runs', O>, filters: RunFilters) {
  const { workflow_id, status, requested_by, requester_email: email, since, until } = filters
  return (
    query
      // The runs of polls are listed only by their workflow.
      .$if(workflow_id === undefined, (all) => all.where('poll_of', 'is', null))
      .$if(workflow_id !== undefined, (all) => all.where('workflow_id', '=', workflow_id as string))
      .$if(status !== undefined, (all) => all.where('status', '=', status as RunStatus))
      // An index has the few open runs.
      .$if(status !== undefined && !runEnded(status), (all) => all.where('finished_at', 'is', null))
      .$if(requested_by !== undefined, (all) => all.where('requested_by', '=', requested_by as string))
      .$if(email !== undefined, (all) => all.where(hasPart(sql`requester_email`, email as string)))
      .$if(since !== undefined, (all) => all.where('runs.created_at', '>=', since as Date))
      .$if(until !== undefined, (all) => all.where('runs.created_at', '<', until as Date))
  )
}

/** The page's ids. An index has the runs of each workflow: among all runs, those of a rare name may be far apart. */
const ofNamed = (
  db: Db,
  organizationId: string,
  name: string,
  wanted: SelectQueryBuilder<Database, 'runs', object>,
  page: PageRequest,
) =>
  pageQuery(
    db
      .selectFrom('workflows as w')
      .innerJoinLateral(
        () =>
          pageQuery(
            wanted.select('runs.id').where(sql<boolean>`runs.workflow_id = w.id`),
            'run',
            page,
            'runs.id',
          ).as('r'),
        (join) => join.onTrue(),
      )
      .select('r.id')
      .where('w.organization_id', '=', organizationId)
      .where(hasPart(sql`w.name`, name)),
    'run',
    page,
    'r.id',
  )

/** As templates of later steps read it. Throws `not_found` as `requireStep` does. */
export async function readStepOutput(
  context: Unsealing,
  organizationId: string,
  runId: string,
  stepId: string,
): Promise<Json> {
  const step = await requireStep(context.db, organizationId, runId, stepId)
  const rows = await context.db
    .selectFrom('effects')
    .select(['item_index', 'output_sealed'])
    .where('run_id', '=', runId)
    .where('step_id', '=', stepId)
    .orderBy('item_index')
    .execute()
  const values: Json[] = []
  for (const row of rows)
    values.push(await openOutput(context, { runId, stepId, itemIndex: row.item_index }, row.output_sealed))
  return step.item_count === null ? (values[0] ?? null) : values
}

/** Throws `not_found` if there is no such step, or if the data of its run was removed. */
export async function requireStep(
  db: Db,
  organizationId: string,
  runId: string,
  stepId: string,
): Promise<{ readonly item_count: number | null }> {
  const step = await db
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
      `the data of run \`${runId}\` was removed at ${step.data_removed_at.toISOString()}, after RETENTION_DAYS`,
    )
  return step
}
