import { sql, type Selectable } from 'kysely'
import { catalog } from '../../catalog/index.ts'
import type { ToolDeclaration } from '../../catalog/tool.ts'
import type { Context } from '../../context.ts'
import type { FinishInput } from '../../contract/messages.ts'
import { runEnded, type RunStatus } from '../../contract/status.ts'
import type { RunsTable } from '../../db/schema/runs.ts'
import { references, resolve } from '../../policy/templates.ts'
import type { Json } from '../../policy/types.ts'
import type { ChainTx } from '../chain-tx.ts'
import { readFixedRun } from './fixed-run.ts'
import { runActor } from './ledger-moves.ts'
import { readOutputs } from './outputs.ts'
import { readVersion } from './version-cache.ts'

type Run = Selectable<RunsTable>
export type FinalStatus = FinishInput['status']

/** Ends a run as its workflow saw it end (commit point `run.finish`); a run that has ended stays as it is. */
export async function finishRun(context: Context, input: FinishInput): Promise<void> {
  const run = await context.db.selectFrom('runs').selectAll().where('id', '=', input.runId).executeTakeFirst()
  if (run === undefined || runEnded(run.status)) return
  const resolved =
    input.status === 'completed' ? await resolveResult(context, run) : { result: null, problem: null }
  await context.combiner.run(run.organization_id, 'run.finish', async (tx) => {
    const now = await tx.trx.selectFrom('runs').selectAll().where('id', '=', run.id).executeTakeFirstOrThrow()
    if (runEnded(now.status)) return
    if (input.status === 'completed' && !(await everyStepAllows(context, tx, now))) {
      // Our own interpreter never gets here: somebody ran something else under the run's id.
      const cancelled = now.cancel_requested_at !== null
      const why = cancelled ? 'the run was cancelled' : 'the workflow ended before its steps had'
      await endRun(tx, now, cancelled ? 'cancelled' : 'failed', why)
    } else if (resolved.problem !== null) await endRun(tx, now, 'failed', resolved.problem)
    else await endRun(tx, now, input.status, await reasonOf(tx, input), resolved.result)
  })
}

/** Whether the rows agree that the run is complete: each step has ended, and well or with `on_error: continue`. */
async function everyStepAllows(context: Context, tx: ChainTx, run: Run): Promise<boolean> {
  const { definition } = await readVersion(context.db, run.workflow_id, run.workflow_version)
  const steps = await tx.trx
    .selectFrom('run_steps')
    .select(['step_id', 'status'])
    .where('run_id', '=', run.id)
    .execute()
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
async function reasonOf(tx: ChainTx, input: FinishInput): Promise<string> {
  if (input.status === 'completed') return 'every step has ended'
  if (input.status === 'cancelled') return 'the run was cancelled'
  if (input.stepId === undefined) return `the run ${input.status}`
  const step = await tx.trx
    .selectFrom('run_steps')
    .select('error')
    .where('run_id', '=', input.runId)
    .where('step_id', '=', input.stepId)
    .executeTakeFirst()
  const what = step?.error?.message ?? input.status
  return `step \`${input.stepId}\` ended the run: ${what}`
}

/**
 * The moves that end a run, inside a transaction: what has not ended is cancelled, waiting approvals are withdrawn, an
 * unsettled effect stays `unknown_outcome` on its step.
 */
export async function endRun(
  tx: ChainTx,
  run: Run,
  status: FinalStatus,
  reason: string,
  result: Json = null,
): Promise<void> {
  const { trx } = tx
  await endEffects(tx, run.id)
  for (const step of await endSteps(tx, run.id))
    if (step.started_at !== null)
      tx.event(run.id, `step.${step.status}`, { step_id: step.step_id, tool: step.tool })
  const withdrawn = await trx
    .updateTable('approvals')
    .set({ status: 'cancelled', decided_at: tx.now })
    .where('run_id', '=', run.id)
    .where('status', '=', 'pending')
    .returning('id')
    .execute()
  for (const { id } of withdrawn)
    tx.event(run.id, 'approval.decided', { approval_id: id, status: 'cancelled' })
  await trx
    .updateTable('runs')
    .set({
      status: status satisfies RunStatus,
      status_reason: reason,
      finished_at: tx.now,
      result: result === null ? null : JSON.stringify(result),
    })
    .where('id', '=', run.id)
    .execute()
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
async function endEffects(tx: ChainTx, runId: string): Promise<void> {
  const keyed = Object.values(catalog).flatMap((tool: ToolDeclaration) =>
    tool.repeat === 'keyed' ? [tool.name] : [],
  )
  // The same as mayHaveHappened in effect.ts; reads and transactional writes never set `sent_at`.
  const mayHaveHappened = sql`(sent_at is not null or (state = 'intent' and tool = any(${keyed}::text[])))`
  await sql`
    update effects set
      state = case when ${mayHaveHappened} then 'unknown_outcome' else 'cancelled' end,
      finished_at = case when ${mayHaveHappened} then null else ${tx.now}::timestamptz end
    where run_id = ${runId} and state in ('held', 'intent', 'sent', 'retry')`.execute(tx.trx)
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
    .execute()
}

/** The definition's `result` with its templates resolved; a reference that finds nothing fails the run. */
async function resolveResult(context: Context, run: Run): Promise<{ result: Json; problem: string | null }> {
  const { definition } = await readVersion(context.db, run.workflow_id, run.workflow_version)
  if (definition.result === undefined) return { result: null, problem: null }
  const stepIds = references(definition.result as Json).flatMap((each) =>
    each.kind === 'step' ? [each.stepId] : [],
  )
  const outputs = await readOutputs(context.db, run.id, [...new Set(stepIds)])
  const { inputs, builtins } = await readFixedRun(context.db, run.id)
  const scope = { inputs, ...builtins, step: (id: string) => outputs.get(id) }
  try {
    return { result: resolve(definition.result, scope).value, problem: null }
  } catch (error) {
    return { result: null, problem: `the \`result\` could not be resolved: ${(error as Error).message}` }
  }
}
