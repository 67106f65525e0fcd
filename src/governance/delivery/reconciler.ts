import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { Context } from '../context.ts'
import type { FinalStatus } from '../../contract/messages.ts'
import { runEnded } from '../../contract/status.ts'
import type { WorkflowEngine, EngineState } from './workflow-engine.ts'
import { startRun, type AttributesCheck } from './relay.ts'
import { endRun } from '../runs/end/finish.ts'

/** The most runs per pass, those with the oldest check first. */
const passSize = 100

/** The most calls of one run that a pass wakes; the next pass takes the rest. */
const mostWoken = 50

interface OpenRun {
  readonly id: string
  readonly organization_id: string
  readonly cancel_requested_at: Date | null
  readonly cancel_requested_by: string | null
  /** Wake keys of calls that were decided, but whose wake-up seems lost. */
  readonly overdue: readonly string[]
}

/**
 * Compares open runs with Temporal. Missing there: started again, and finished steps return their outcomes, so nothing
 * runs twice. Ended there: closed here. Waiting there for a decision that exists here: woken again. Runs of the last
 * `minAgeSeconds` are left to the relay.
 */
export async function reconcile(
  context: Context,
  engine: WorkflowEngine,
  attributes: AttributesCheck,
  minAgeSeconds: number,
): Promise<{ started: number; closed: number; woken: number }> {
  const result = { started: 0, closed: 0, woken: 0 }
  for (const run of await takeRuns(context.db, minAgeSeconds)) {
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
  for (const [name, count] of Object.entries(result)) context.metrics.reconciled.inc({ result: name }, count)
  return result
}

/**
 * Repeats a lost wake-up or cancellation; a repetition does no harm. Calls are woken by key, so only those with a
 * decision ask again.
 */
async function tellAgain(engine: WorkflowEngine, run: OpenRun): Promise<boolean> {
  if (run.cancel_requested_at !== null) return engine.cancel(run.id, run.cancel_requested_by)
  return run.overdue.length > 0 && engine.wake(run.id, { key: run.overdue })
}

/** Marks the runs as checked, so several workers share the work. */
async function takeRuns(db: Db, minAgeSeconds: number): Promise<OpenRun[]> {
  const { rows } = await sql<OpenRun>`
    with taken as (
      update runs set checked_at = clock_timestamp()
      where id in (
        select id from runs
        -- a \`queued\` run has no workflow yet
        where finished_at is null and slot is distinct from 'queued'
          and greatest(created_at, checked_at) < clock_timestamp() - make_interval(secs => ${minAgeSeconds})
        order by checked_at nulls first limit ${passSize} for update skip locked)
      returning id, organization_id, cancel_requested_at, cancel_requested_by, slot
    )
    select taken.id, taken.organization_id, taken.cancel_requested_at, taken.cancel_requested_by, array(
        select e.step_id || '#' || e.item_index from effects e
        where e.run_id = taken.id and e.state = 'unknown_outcome' and e.resolved_outcome is not null
        union all
        select coalesce(e.step_id || '#' || e.item_index, '')
        from approvals a left join effects e on e.run_id = a.run_id and e.approval_id = a.id
        where a.run_id = taken.id and a.status <> 'pending' and a.used_at is null and a.superseded_by is null
          and (e.state = 'held' or a.kind = 'run')
          -- an approved run that waits for a slot is woken with the slot
          and (taken.slot is distinct from 'waits' or a.status <> 'approved')
          and a.decided_at < clock_timestamp() - make_interval(secs => ${minAgeSeconds})
        limit ${mostWoken}
      ) as overdue
    from taken`.execute(db)
  return rows
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
  context: Pick<Context, 'combiner' | 'log'>,
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
