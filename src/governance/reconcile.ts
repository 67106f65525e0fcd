import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { runEnded } from '../contract/status.ts'
import type { Motor, MotorState } from './motor.ts'
import { startRun, type AttributesCheck } from './relay.ts'
import { endRun, type FinalStatus } from './runs/finish.ts'

/** Any number; a pass looks at this many of the runs that were looked at longest ago. */
const passSize = 100

/** Calls of one run that a pass wakes: those that it leaves are next. */
const mostWoken = 50

interface OpenRun {
  readonly id: string
  readonly organization_id: string
  readonly cancel_requested_at: Date | null
  /** Wake keys of what was decided, and a wake-up should have come by now. */
  readonly overdue: readonly string[]
}

/**
 * Compares runs that have not ended with Temporal: missing there → started again (finished steps return their outcomes,
 * nothing runs twice); ended there → closed here; waiting there for what is decided here → told again. Runs of the last
 * `minAgeSeconds` are left to the relay.
 */
export async function reconcile(
  context: Context,
  motor: Motor,
  attributes: AttributesCheck,
  minAgeSeconds: number,
): Promise<{ started: number; closed: number; woken: number }> {
  const result = { started: 0, closed: 0, woken: 0 }
  for (const run of await takeRuns(context, minAgeSeconds)) {
    const { id } = run
    const state = await motor.describe(id)
    if (state === 'running') {
      if (await tellAgain(motor, run)) result.woken += 1
    } else if (state === 'missing') {
      await startRun(context, motor, attributes, id)
      result.started += 1
      context.log.warn({ run_id: id }, 'a run was missing in Temporal and was started again')
    } else if (await close(context, run.organization_id, id, state)) result.closed += 1
  }
  return result
}

/**
 * A wake-up or cancellation that got lost on the way, whoever lost it; told twice it does no harm. Calls by their keys: of
 * many that wait only those have something to ask.
 */
async function tellAgain(motor: Motor, run: OpenRun): Promise<boolean> {
  if (run.cancel_requested_at !== null) return motor.cancel(run.id)
  return run.overdue.length > 0 && motor.wake(run.id, { key: run.overdue })
}

/** Marks them as looked at, so that several workers share the work. */
async function takeRuns(context: Context, minAgeSeconds: number): Promise<OpenRun[]> {
  const { rows } = await sql<OpenRun>`
    with taken as (
      update runs set checked_at = clock_timestamp()
      where id in (
        select id from runs
        -- one that is \`queued\` has no workflow yet
        where finished_at is null and slot is distinct from 'queued'
          and greatest(created_at, checked_at) < clock_timestamp() - make_interval(secs => ${minAgeSeconds})
        order by checked_at nulls first limit ${passSize} for update skip locked)
      returning id, organization_id, cancel_requested_at, slot
    )
    select taken.id, taken.organization_id, taken.cancel_requested_at, array(
        select e.step_id || '#' || e.item_index from effects e
        where e.run_id = taken.id and e.state = 'unknown_outcome' and e.resolved_outcome is not null
        union all
        select coalesce(e.step_id || '#' || e.item_index, '')
        from approvals a left join effects e on e.run_id = a.run_id and e.approval_id = a.id
        where a.run_id = taken.id and a.status <> 'pending' and a.used_at is null and a.superseded_by is null
          and (e.state = 'held' or a.kind = 'run')
          -- approved, and woken when it has a slot
          and (taken.slot is distinct from 'waits' or a.status <> 'approved')
          and a.decided_at < clock_timestamp() - make_interval(secs => ${minAgeSeconds})
        limit ${mostWoken}
      ) as overdue
    from taken`.execute(context.db)
  return rows
}

const endings: Readonly<
  Record<Exclude<MotorState, 'missing' | 'running'>, { status: FinalStatus; reason: string }>
> = {
  terminated: { status: 'cancelled', reason: 'the run was terminated in Temporal' },
  cancelled: { status: 'cancelled', reason: 'the run was cancelled in Temporal' },
  failed: { status: 'failed', reason: 'the workflow failed in Temporal' },
  completed: { status: 'failed', reason: 'the workflow ended in Temporal without recording how' },
}

async function close(
  context: Context,
  organizationId: string,
  runId: string,
  state: keyof typeof endings,
): Promise<boolean> {
  return context.combiner.run(organizationId, 'run.finish', async (tx) => {
    const run = await tx.trx.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirstOrThrow()
    if (runEnded(run.status)) return false
    const { status, reason } = endings[state]
    await endRun(tx, run, status, reason)
    context.log.warn({ run_id: runId, state }, 'a run had ended in Temporal and was closed')
    return true
  })
}
