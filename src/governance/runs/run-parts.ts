import type { Selectable } from 'kysely'
import type { Context } from '../../context.ts'
import type { StepStatus } from '../../contract/status.ts'
import type { RunsTable } from '../../db/schema/runs.ts'
import { listInParts, type JsonParts } from '../json-parts.ts'
import { resultPlace } from '../sealing/places.ts'
import { openKept } from '../sealing/sealer.ts'
import { openInputs } from './fixed-run.ts'
import { shownOutputs } from './output-parts.ts'
import {
  head,
  stepPages,
  type RunHead,
  type RunView,
  type Step,
  type StepView,
  type WaitingView,
} from './read.ts'

/** A run's fields, in the order in which they are shown; what can be long comes in parts. */
export type RunFields = RunHead &
  Pick<RunView, 'inputs' | 'input_labels' | 'result'> & {
    readonly waiting_for: JsonParts
    readonly outputs: JsonParts
    readonly steps: JsonParts
  }

/** A run of this organization, or null. Its lists are read as they are taken, and tell what is there then. */
export async function readRunFields(
  context: Context,
  organizationId: string,
  runId: string,
): Promise<RunFields | null> {
  const run = await context.db
    .selectFrom('runs')
    .selectAll()
    .where('id', '=', runId)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  if (run === undefined) return null
  return {
    ...head(run),
    waiting_for: pendingInParts(context, { column: 'run_id', value: runId }),
    inputs: await openInputs(context, run),
    input_labels: run.input_labels,
    outputs: shownOutputs(context, runId),
    result: await openResult(context, run),
    steps: listInParts(() => stepViews(context, runId)),
  }
}

async function openResult({ sealer }: Context, run: Selectable<RunsTable>): Promise<RunView['result']> {
  const kept = { sealed: run.result_sealed, plain: run.result }
  return JSON.parse((await openKept(sealer, resultPlace(run.id), kept)) ?? 'null') as RunView['result']
}

/** Approvals that are read at once. */
const mostApprovals = 500

/** What a run or an agent's session waits for. */
export function pendingInParts(
  { db }: Pick<Context, 'db'>,
  of: { readonly column: 'run_id' | 'session_id'; readonly value: string },
): JsonParts {
  return listInParts(async function* (): AsyncGenerator<WaitingView> {
    for (let after = ''; ;) {
      const rows = await db
        .selectFrom('approvals')
        .select(['id', 'step_id', 'item_index', 'tool', 'rule_name', 'created_at', 'expires_at'])
        .where(of.column, '=', of.value)
        .where('status', '=', 'pending')
        .where('id', '>', after)
        .orderBy('id')
        .limit(mostApprovals)
        .execute()
      for (const row of rows)
        yield {
          approval_id: row.id,
          step_id: row.step_id,
          item_index: row.item_index,
          tool: row.tool,
          rule_name: row.rule_name,
          since: row.created_at.toISOString(),
          expires_at: row.expires_at?.toISOString() ?? null,
        }
      if (rows.length < mostApprovals) return
      after = rows.at(-1)?.id ?? after
    }
  })
}

async function* stepViews(context: Context, runId: string): AsyncGenerator<StepView> {
  for await (const steps of stepPages(context, runId)) {
    const ids = steps.map((step) => step.step_id)
    const waits = await readWaiting(context, runId, ids)
    const approvals = await readApprovalIds(context, runId, ids)
    for (const step of steps) {
      const own = waits.filter((each) => each.step_id === step.step_id)
      yield {
        id: step.step_id,
        tool: step.tool,
        status: waitingStatus(step, own),
        unresolved_items: own
          .filter(({ item_index, state }) => item_index >= 0 && state === 'unknown_outcome')
          .map((each) => each.item_index),
        verdict: step.verdict,
        attempts: step.attempts,
        labels: step.labels,
        started_at: step.started_at?.toISOString() ?? null,
        finished_at: step.finished_at?.toISOString() ?? null,
        duration_ms:
          step.started_at === null || step.finished_at === null
            ? null
            : step.finished_at.getTime() - step.started_at.getTime(),
        error: step.error,
        approval_ids: approvals.filter((each) => each.step_id === step.step_id).map((each) => each.id),
      }
    }
  }
}

type WaitingCall = Awaited<ReturnType<typeof readWaiting>>[number]

/** The calls of these steps that wait for a person. */
function readWaiting({ db }: Context, runId: string, stepIds: readonly string[]) {
  return db
    .selectFrom('effects')
    .select(['step_id', 'item_index', 'state'])
    .where('run_id', '=', runId)
    .where('step_id', 'in', stepIds)
    .where('state', 'in', ['held', 'unknown_outcome'])
    .orderBy('item_index')
    .execute()
}

function readApprovalIds({ db }: Context, runId: string, stepIds: readonly string[]) {
  return db
    .selectFrom('approvals')
    .select(['id', 'step_id'])
    .where('run_id', '=', runId)
    .where('step_id', 'in', stepIds)
    .orderBy('id')
    .execute()
}

/** A `for_each` step waits as long as one of its items does, whatever has become of the others since. */
function waitingStatus(step: Step, own: readonly WaitingCall[]): StepStatus {
  if (step.item_count === null || step.finished_at !== null) return step.status
  const states = own.map((each) => each.state)
  if (states.includes('unknown_outcome')) return 'unknown_outcome'
  return states.includes('held') ? 'held' : step.status
}
