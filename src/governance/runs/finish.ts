import { sql, type Selectable } from 'kysely'
import { catalog } from '../../catalog/index.ts'
import type { ToolDeclaration } from '../../catalog/tool.ts'
import type { Context } from '../../context.ts'
import type { FinishInput } from '../../contract/messages.ts'
import { runEnded, type RunStatus } from '../../contract/status.ts'
import type { RunsTable, RunStepsTable } from '../../db/schema/runs.ts'
import { references, resolve, type Scope } from '../../policy/templates.ts'
import type { Json } from '../../policy/types.ts'
import type { ChainTx } from '../chain-tx.ts'
import { grantSlots } from '../quotas/slots.ts'
import { forgetFixedRun, readFixedRun, type FixedRun } from './fixed-run.ts'
import { runActor } from './ledger-moves.ts'
import { load } from './loading.ts'
import { forgetOutputs, ResourceExhausted } from './outputs.ts'
import { readStarts } from './load-starts.ts'
import { resultPlace } from '../sealing/places.ts'
import { readVersion } from './version-cache.ts'

type Run = Selectable<RunsTable>
export type FinalStatus = FinishInput['status']

/** Ends a run as its workflow saw it end (commit point `run.finish`); a run that has ended stays as it is. */
export async function finishRun(
  context: Context,
  input: FinishInput,
  signal: AbortSignal = new AbortController().signal,
): Promise<void> {
  const fixed = await readFixedRun(context, input.runId)
  const resolved =
    input.status === 'completed' && !(await isOver(context, input.runId))
      ? await resolveResult(context, fixed, signal)
      : { result: null, problem: null }
  const result =
    resolved.result === null
      ? null
      : await context.sealer.seal(resultPlace(fixed.id), JSON.stringify(resolved.result))
  await context.combiner.run(fixed.organizationId, 'run.finish', async (tx) => {
    const { run, steps } = await readRun(tx, input.runId)
    if (run === undefined || runEnded(run.status)) return
    if (input.status === 'completed' && run.cancel_requested_at !== null)
      await endRun(tx, run, 'cancelled', 'the run was cancelled')
    else if (input.status === 'completed' && !(await everyStepAllows(context, fixed, steps))) {
      // Our own interpreter never gets here: somebody ran something else under the run's id.
      await endRun(tx, run, 'failed', 'the workflow ended before its steps had')
    } else if (resolved.problem !== null) await endRun(tx, run, 'failed', resolved.problem)
    else await endRun(tx, run, input.status, reasonOf(input, steps), result)
  })
  await forget(context, fixed)
}

/** Looked at before anything is loaded; whether it counts is asked again under the lock. */
async function isOver(context: Context, runId: string): Promise<boolean> {
  const row = await context.db
    .selectFrom('runs')
    .select(['finished_at', 'cancel_requested_at'])
    .where('id', '=', runId)
    .executeTakeFirst()
  return row === undefined || row.finished_at !== null || row.cancel_requested_at !== null
}

/** Caches hold what runs under way need: one that has ended leaves nothing in this process. */
async function forget(context: Context, run: FixedRun): Promise<void> {
  const { definition } = await readVersion(context.db, run.workflowId, run.workflowVersion)
  forgetOutputs(
    run.id,
    definition.steps.map((step) => step.id),
  )
  forgetFixedRun(run.id)
}

type Step = Pick<Selectable<RunStepsTable>, 'step_id' | 'status' | 'error'>

async function readRun(
  tx: ChainTx,
  runId: string,
): Promise<{ run: Run | undefined; steps: readonly Step[] }> {
  const runs = tx.send(tx.trx.selectFrom('runs').selectAll().where('id', '=', runId))
  const steps = tx.send(
    tx.trx.selectFrom('run_steps').select(['step_id', 'status', 'error']).where('run_id', '=', runId),
  )
  return { run: (await runs)[0], steps: await steps }
}

/** Whether the rows agree that the run is complete: each step has ended, and well or with `on_error: continue`. */
async function everyStepAllows(context: Context, run: FixedRun, steps: readonly Step[]): Promise<boolean> {
  const { definition } = await readVersion(context.db, run.workflowId, run.workflowVersion)
  const goesOn = new Set(
    definition.steps.filter((step) => step.on_error === 'continue').map((step) => step.id),
  )
  return steps.every(
    ({ step_id, status }) =>
      status === 'completed' ||
      status === 'skipped' ||
      (goesOn.has(step_id) && ['failed', 'denied', 'rejected', 'expired'].includes(status)),
  )
}

/** One plain sentence on why the run ended so. */
function reasonOf(input: FinishInput, steps: readonly Step[]): string {
  if (input.status === 'completed') return 'every step has ended'
  if (input.status === 'cancelled') return 'the run was cancelled'
  if (input.stepId === undefined) return `the run ${input.status}`
  const step = steps.find((each) => each.step_id === input.stepId)
  const what = step?.error?.message ?? input.status
  return `step \`${input.stepId}\` ended the run: ${what}`
}

/**
 * The moves that end a run, inside a transaction: what has not ended is cancelled, waiting approvals are withdrawn, an
 * unsettled effect stays `unknown_outcome` on its step. `result` is sealed.
 */
export async function endRun(
  tx: ChainTx,
  run: Run,
  status: FinalStatus,
  reason: string,
  result: Buffer | null = null,
): Promise<void> {
  const { trx } = tx
  endEffects(tx, run.id)
  const ended = tx.send(endSteps(tx, run.id))
  const withdrawn = tx.send(
    trx
      .updateTable('approvals')
      .set({ status: 'cancelled', decided_at: tx.now })
      .where('run_id', '=', run.id)
      .where('status', '=', 'pending')
      .returning('id'),
  )
  const row = {
    status: status satisfies RunStatus,
    status_reason: reason,
    finished_at: tx.now,
    result_sealed: result,
    slot: null,
  }
  void tx.send(trx.updateTable('runs').set(row).where('id', '=', run.id))
  if (run.slot === 'taken') grantSlots(tx, tx.policy.limits.concurrent_executions)
  for (const step of await ended)
    if (step.started_at !== null)
      tx.event(run.id, `step.${step.status}`, { step_id: step.step_id, tool: step.tool })
  for (const { id } of await withdrawn)
    tx.event(run.id, 'approval.decided', { approval_id: id, status: 'cancelled' })
  tx.event(run.id, `run.${status}`, { reason })
  tx.append({
    eventType: 'workflow.execute',
    action: 'finish',
    status,
    actor: runActor(run),
    workflowId: run.workflow_id,
    runId: run.id,
    durationMs: tx.now.getTime() - run.created_at.getTime(),
    metadata: {
      input_hash: run.input_hash,
      nodes_executed: run.nodes_executed,
      nodes_failed: run.nodes_failed,
      api_key_id: run.api_key_id,
      requested_by: run.requested_by,
    },
  })
}

/** One statement, so that a mark of no return (`effect.sent`) comes either before it or not at all. */
function endEffects(tx: ChainTx, runId: string): void {
  const keyed = Object.values(catalog).flatMap((tool: ToolDeclaration) =>
    tool.repeat === 'keyed' ? [tool.name] : [],
  )
  // The same as mayHaveHappened in effect.ts; reads and transactional writes never set `sent_at`.
  const mayHaveHappened = sql`(sent_at is not null or (state = 'intent' and tool = any(${keyed}::text[])))`
  void tx.send(sql`
    update effects set
      state = case when ${mayHaveHappened} then 'unknown_outcome' else 'cancelled' end,
      finished_at = case when ${mayHaveHappened} then null else ${tx.now}::timestamptz end
    where run_id = ${runId} and state in ('held', 'intent', 'sent', 'retry')`)
}

/** Answers the steps that had not ended. */
function endSteps(tx: ChainTx, runId: string) {
  return tx.trx
    .updateTable('run_steps')
    .set((eb) => ({
      status: eb
        .case()
        .when(
          eb.exists(
            eb
              .selectFrom('effects as e')
              .select('e.run_id')
              .whereRef('e.run_id', '=', 'run_steps.run_id')
              .whereRef('e.step_id', '=', 'run_steps.step_id')
              .where('e.state', '=', 'unknown_outcome'),
          ),
        )
        .then('unknown_outcome' as const)
        .else('cancelled' as const)
        .end(),
      finished_at: tx.now,
    }))
    .where('run_id', '=', runId)
    .where('finished_at', 'is', null)
    .returning(['step_id', 'status', 'tool', 'started_at'])
}

interface Result {
  readonly result: Json
  readonly problem: string | null
}

/** In the place of a step: what the run's own `result` loads. */
const ofResult = ''

/** The definition's `result` with its templates resolved; a reference that finds nothing fails the run. */
async function resolveResult(context: Context, run: FixedRun, signal: AbortSignal): Promise<Result> {
  const { definition } = await readVersion(context.db, run.workflowId, run.workflowVersion)
  const templates = definition.result as Json | undefined
  if (templates === undefined) return { result: null, problem: null }
  const failed = (error: unknown): Result => ({
    result: null,
    problem: `the \`result\` could not be resolved: ${(error as Error).message}`,
  })
  const resolved = (scope: Scope): Result => {
    try {
      return { result: resolve(templates, scope).value, problem: null }
    } catch (error) {
      return failed(error)
    }
  }
  const stepIds = references(templates).flatMap((each) => (each.kind === 'step' ? [each.stepId] : []))
  const key = { runId: run.id, stepId: ofResult, itemIndex: -1 }
  const starts = await readStarts(context, key)
  const what = { key, run, sources: [...new Set(stepIds)], templates, starts, sealedBytes: null }
  try {
    const { value, permit } = await load(context, what, signal, resolved)
    permit.release()
    return value
  } catch (error) {
    if (error instanceof ResourceExhausted) return failed(error)
    throw error
  }
}
