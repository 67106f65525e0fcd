import { takeOpenRuns, type OpenRun } from '../../db/queries/runs.ts'
import { eachOrganization } from '../audit/each-organization.ts'
import type { Changing, ReadingRuns, Telling } from '../context.ts'
import type { FinalStatus } from '../../contract/messages.ts'
import { runEnded } from '../../contract/status.ts'
import type { WorkflowEngine, EngineState } from './workflow-engine.ts'
import { startRun, type AttributesCheck } from './relay.ts'
import { endRun } from '../runs/end/finish.ts'

/** A pass checks so many runs, the longest unchecked first, and wakes so many calls of one run. */
const passSize = 100

const mostWoken = 50

type Reconciling = Changing & ReadingRuns & Telling

/**
 * Compares open runs with Temporal. A missing one is started again; its finished steps return their stored outcomes, so
 * nothing runs twice. One that has ended in Temporal is closed. A lost wake-up or cancellation is sent again. Runs
 * younger than `minAgeSeconds` are left to the relay.
 */
export async function reconcile(
  context: Reconciling,
  engine: WorkflowEngine,
  attributes: AttributesCheck,
  minAgeSeconds: number,
): Promise<{ started: number; closed: number; woken: number }> {
  const result = { started: 0, closed: 0, woken: 0 }
  const { rows } = await takeOpenRuns({ most: passSize, minAgeSeconds, mostWoken }).execute(context.db)
  const compare = async (run: OpenRun): Promise<void> => {
    const { id } = run
    const state = await engine.describe(id)
    if (state === 'running') {
      if (await tellAgain(engine, run)) result.woken += 1
    } else if (state === 'missing') {
      await startRun(context, engine, attributes, id)
      result.started += 1
      context.log.warn({ run_id: id }, 'a run was missing in Temporal and was started again')
    } else if (await close(context, run.organization_id, id, state)) result.closed += 1
  }
  await eachOrganization(context.sparseLog, 'reconcile', rows, async (own) => {
    for (const run of own) await compare(run)
  })
  for (const [name, count] of Object.entries(result)) context.metrics.reconciled.inc({ result: name }, count)
  return result
}

/** A repetition does no harm. `overdue` calls still wait although they are decided in the database. */
async function tellAgain(engine: WorkflowEngine, run: OpenRun): Promise<boolean> {
  if (run.cancel_requested_at !== null) return engine.cancel(run.id, run.cancel_requested_by)
  return run.overdue.length > 0 && engine.wake(run.id, { key: run.overdue })
}

const endings: Readonly<
  Record<Exclude<EngineState, 'missing' | 'running'>, { status: FinalStatus; reason: string }>
> = {
  terminated: { status: 'cancelled', reason: 'the run was terminated in Temporal' },
  cancelled: { status: 'cancelled', reason: 'the run was cancelled in Temporal' },
  failed: { status: 'failed', reason: 'the workflow failed in Temporal' },
  completed: { status: 'failed', reason: 'the workflow ended in Temporal without recording how' },
}

async function close(
  context: Changing & Telling,
  organizationId: string,
  runId: string,
  state: keyof typeof endings,
): Promise<boolean> {
  return context.combiner.run(organizationId, 'run.finish', async (tx) => {
    const run = await tx.trx.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow()
    if (runEnded(run.status)) return false
    const { status, reason } = endings[state]
    await endRun(tx, run, status, reason, null, { error_code: `temporal_${state}` })
    context.log.warn({ run_id: runId, state }, 'a run had ended in Temporal and was closed')
    return true
  })
}
