import { sql } from 'kysely'
import type { Db } from '../../db/schema/index.ts'
import type { Context } from '../context.ts'
import { inOneLine } from '../../policy/text.ts'
import { interpreterVersion, type Wake } from '../../contract/messages.ts'
import { atCommitPoint } from '../audit/commit-points.ts'
import type { WorkflowEngine } from './workflow-engine.ts'
import { cutToBytes, skeletonOf } from './skeleton.ts'
import { queueOf } from './task-queue.ts'
import { readVersion } from '../runs/values/version-cache.ts'

/**
 * Delivers outbox rows to Temporal. It leases a row by setting its next attempt ten seconds ahead, sends it, and
 * deletes it (commit point `outbox.deliver`). If the process dies, the row is sent again, and receivers ignore
 * repetitions. Runs right after each commit of this process that wrote rows, and every second for those of others.
 */
export interface Relay {
  /** Returns at once. */
  kick(): void
  stop(): Promise<void>
}

/** Whether the Temporal cluster has our search attributes; asked before each start of a workflow. */
export type AttributesCheck = () => Promise<boolean>

type Relaying = Pick<Context, 'config' | 'db' | 'metrics' | 'runCaches' | 'sparseLog'>

interface Row {
  id: number
  kind: 'run.start' | 'run.wake' | 'run.cancel'
  run_id: string
  payload: Wake
  attempts: number
}
const batchSize = 50
/** The name is a search attribute, of which Temporal's databases keep at most 255 characters. */
const mostNameBytes = 250

export function startRelay(
  context: Relaying & Pick<Context, 'onOutbox'>,
  engine: WorkflowEngine,
  attributes: AttributesCheck,
): Relay {
  let running: Promise<void> | null = null
  let again = false
  let stopped = false
  const pass = async (): Promise<void> => {
    do {
      again = false
      const rows = await lease(context.db)
      const told = await Promise.all(rows.map((row) => deliver(context, engine, attributes, row)))
      await deleteRows(
        context.db,
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
      .catch((error: Error) =>
        context.sparseLog.warn('outbox', { err: error }, 'the outbox could not be read'),
      )
      .finally(() => {
        running = null
      })
  }
  const timer = setInterval(kick, 1_000)
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

/** The commit does not wait for the disk: if PostgreSQL forgets a lease in a crash, the row is sent again. */
async function lease(db: Db): Promise<Row[]> {
  const { rows } = await sql<Row>`
    update outbox set attempts = attempts + 1, next_attempt_at = clock_timestamp() + interval '10 seconds'
    where id in (select id from outbox where next_attempt_at <= clock_timestamp()
                 order by id limit ${batchSize} for update skip locked)
      and (select set_config('synchronous_commit', 'off', true)) = 'off'
    returning id, kind, run_id, payload, attempts`.execute(db)
  return rows.sort((a, b) => a.id - b.id)
}

/** false if the message was postponed. */
async function deliver(
  context: Relaying,
  engine: WorkflowEngine,
  attributes: AttributesCheck,
  row: Row,
): Promise<boolean> {
  try {
    const isTold = await tellTemporal(context, engine, attributes, row)
    context.metrics.relayed.inc({ kind: row.kind, result: isTold ? 'delivered' : 'postponed' })
    if (isTold) return true
    await postpone(context.db, row, 'the workflow is not running yet')
  } catch (error) {
    const message = (error as Error).message
    context.metrics.relayed.inc({ kind: row.kind, result: 'failed' })
    context.sparseLog.warn(
      `temporal ${row.kind}`,
      { err: error, kind: row.kind, run_id: row.run_id, attempt: row.attempts },
      'a message to Temporal failed, trying again',
    )
    await postpone(context.db, row, message).catch(() => {}) // the row is sent again after its lease
  }
  return false
}

/** If this fails, the rows are sent again after their lease. */
async function deleteRows(db: Db, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return
  const ids = rows.map((row) => row.id)
  await atCommitPoint('outbox.deliver', () =>
    sql`delete from outbox where id = any(${ids}::bigint[])`.execute(db),
  )
}

/** Returns false if the run has not ended and its workflow does not run: it must be started first. */
async function tellTemporal(
  context: Pick<Context, 'config' | 'db' | 'runCaches'>,
  engine: WorkflowEngine,
  attributes: AttributesCheck,
  row: Row,
): Promise<boolean> {
  if (row.kind === 'run.start') {
    await startRun(context, engine, attributes, row.run_id)
    return true
  }
  const told =
    row.kind === 'run.wake'
      ? await engine.wake(row.run_id, row.payload)
      : await engine.cancel(row.run_id, row.payload.by ?? null)
  if (told) return true
  const run = await context.db
    .selectFrom('runs')
    .select('finished_at')
    .where('id', '=', row.run_id)
    .executeTakeFirst()
  return run?.finished_at !== null
}

/** Does nothing if the run has ended, waits for its first slot, or has a workflow already. */
export async function startRun(
  context: Pick<Context, 'config' | 'db' | 'runCaches'>,
  engine: WorkflowEngine,
  attributes: AttributesCheck,
  runId: string,
): Promise<void> {
  const run = await context.db
    .selectFrom('runs as r')
    .innerJoin('workflows as w', 'w.id', 'r.workflow_id')
    .innerJoin('organizations as o', 'o.id', 'r.organization_id')
    .leftJoin('default_task_queue as d', (join) => join.onTrue())
    .select(['r.organization_id', 'r.workflow_id', 'r.workflow_version', 'r.interpreter_version', 'r.risk'])
    .select(['r.status', 'r.slot', 'r.finished_at', 'w.name as workflow_name', 'o.task_queue', 'd.queue'])
    .where('r.id', '=', runId)
    .executeTakeFirst()
  if (run === undefined || run.finished_at !== null || run.slot === 'queued') return
  const version = await readVersion(context, run.workflow_id, run.workflow_version)
  await engine.start({
    taskQueue: queueOf(context.config, run),
    organizationId: run.organization_id,
    workflowId: run.workflow_id,
    workflowName: cutToBytes(inOneLine(run.workflow_name), mostNameBytes),
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

/** For half a second at first: a wake-up often arrives while its workflow starts. At most half a minute. */
async function postpone(db: Db, row: Row, reason: string): Promise<void> {
  const seconds = Math.min(0.25 * 2 ** Math.min(row.attempts, 10), 30)
  await db
    .updateTable('outbox')
    .set({
      next_attempt_at: sql<Date>`clock_timestamp() + make_interval(secs => ${seconds})`,
      last_error: reason.slice(0, 500),
    })
    .where('id', '=', row.id)
    .execute()
}
