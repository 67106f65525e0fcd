import { sql } from 'kysely'
import type { Context } from '../context.ts'
import { interpreterVersion } from '../contract/messages.ts'
import { atCommitPoint } from './commit-points.ts'
import type { Motor } from './motor.ts'
import { skeletonOf } from './runs/skeleton.ts'
import { queueOf } from './task-queue.ts'
import { readVersion } from './runs/version-cache.ts'

/**
 * The relay: outbox rows to Temporal. A row is taken by moving its next attempt ahead (a lease of ten seconds), told to
 * Temporal, and deleted (commit point `outbox.deliver`). A process that dies in between leaves the lease to run out;
 * what is then told twice is ignored by its receiver. Every process that writes rows tries them at once and then looks
 * once a second for what others left.
 */
export interface Relay {
  /** Tries what is due now; does not wait. */
  kick(): void
  stop(): Promise<void>
}

/** Whether the cluster has our search attributes; asked before the first start, when Temporal answers. */
export type AttributesCheck = () => Promise<boolean>

interface Row {
  id: number
  kind: 'run.start' | 'run.wake' | 'run.cancel'
  run_id: string
  payload: Record<string, unknown>
  attempts: number
}

const pollMilliseconds = 1_000
const batchSize = 50

export function startRelay(context: Context, motor: Motor, attributes: AttributesCheck): Relay {
  let running: Promise<void> | null = null
  let again = false
  let stopped = false
  const pass = async (): Promise<void> => {
    do {
      again = false
      const rows = await lease(context)
      const told = await Promise.all(rows.map((row) => deliver(context, motor, attributes, row)))
      await forget(
        context,
        rows.filter((_, index) => told[index]),
      )
      again ||= rows.length === batchSize
    } while (again && !stopped)
  }
  const kick = (): void => {
    if (stopped) return
    if (running !== null) {
      again = true
      return
    }
    running = pass()
      .catch((error: Error) => context.log.warn({ err: error }, 'the outbox could not be read'))
      .finally(() => {
        running = null
      })
  }
  const timer = setInterval(kick, pollMilliseconds)
  context.onOutbox = kick
  return {
    kick,
    async stop() {
      stopped = true
      clearInterval(timer)
      await running
    },
  }
}

async function lease(context: Context): Promise<Row[]> {
  const { rows } = await sql<Row>`
    update outbox set attempts = attempts + 1, next_attempt_at = clock_timestamp() + interval '10 seconds'
    where id in (select id from outbox where next_attempt_at <= clock_timestamp()
                 order by id limit ${batchSize} for update skip locked)
    returning id, kind, run_id, payload, attempts`.execute(context.db)
  return rows.sort((a, b) => a.id - b.id)
}

/** Whether it was told; else it has been put off. */
async function deliver(
  context: Context,
  motor: Motor,
  attributes: AttributesCheck,
  row: Row,
): Promise<boolean> {
  try {
    if (await tell(context, motor, attributes, row)) return true
    await postpone(context, row, 'the workflow is not running yet')
  } catch (error) {
    const message = (error as Error).message
    context.log.warn(
      { err: error, kind: row.kind, run_id: row.run_id },
      'Temporal could not be told, trying again',
    )
    await postpone(context, row, message).catch(() => {}) // the lease runs out by itself
  }
  return false
}

/** What was told; when this fails it is told again once its lease has run out. */
async function forget(context: Context, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return
  const ids = rows.map((row) => row.id)
  await atCommitPoint('outbox.deliver', () =>
    sql`delete from outbox where id = any(${ids}::bigint[])`.execute(context.db),
  )
}

/** False: there is no workflow to tell although the run has not ended; its start comes first. */
async function tell(context: Context, motor: Motor, attributes: AttributesCheck, row: Row): Promise<boolean> {
  if (row.kind === 'run.start') {
    await startRun(context, motor, attributes, row.run_id)
    return true
  }
  const told =
    row.kind === 'run.wake' ? await motor.wake(row.run_id, row.payload) : await motor.cancel(row.run_id)
  if (told) return true
  const run = await context.db
    .selectFrom('runs')
    .select('finished_at')
    .where('id', '=', row.run_id)
    .executeTakeFirst()
  return run?.finished_at !== null
}

/** Starts a run's workflow; a run that was started already, or has ended, stays as it is. */
export async function startRun(
  context: Context,
  motor: Motor,
  attributes: AttributesCheck,
  runId: string,
): Promise<void> {
  const run = await context.db.selectFrom('runs').selectAll().where('id', '=', runId).executeTakeFirst()
  if (run === undefined || run.finished_at !== null || run.slot === 'queued') return
  const version = await readVersion(context.db, run.workflow_id, run.workflow_version)
  await motor.start({
    taskQueue: await queueOf(context, run.organization_id),
    organizationId: run.organization_id,
    workflowId: run.workflow_id,
    version: run.workflow_version,
    risk: run.risk.level,
    input: {
      runId,
      interpreterVersion: Math.min(run.interpreter_version, interpreterVersion),
      steps: skeletonOf(version),
      gated: run.status === 'awaiting_approval',
      heartbeatSeconds: context.config.heartbeatTimeoutSeconds,
      searchAttributes: await attributes(),
    },
  })
}

/** Backs off up to half a minute; a start that a wake waits for is usually there within a second. */
async function postpone(context: Context, row: Row, reason: string): Promise<void> {
  const seconds = Math.min(0.25 * 2 ** Math.min(row.attempts, 10), 30)
  await context.db
    .updateTable('outbox')
    .set({
      next_attempt_at: sql<Date>`clock_timestamp() + make_interval(secs => ${seconds})`,
      last_error: reason.slice(0, 500),
    })
    .where('id', '=', row.id)
    .execute()
}
